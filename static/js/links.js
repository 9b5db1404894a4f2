/** Links that change what the reader looks at. */

import { element } from "./dom.js";
import { select, toHash } from "./selection.js";
import { get } from "./store.js";

/** A link to a page of accounts, which leads back here. */
export function accountLink(name, text) {
  const here = ({ target }) => { target.search = new URLSearchParams({ next: location.pathname + location.hash }); };
  return element("a", { href: `/accounts/${name}/`, onpointerdown: here, onfocus: here }, text);
}

/** A link that calls `go()` in this page; with a modifier key held it opens like any other link. */
export function link(href, go, attributes, ...children) {
  return element("a", {
    href,
    ...attributes,
    onclick(event) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      go();
    },
  }, ...children);
}

/** A link to the selection with `changes`. */
export function selectionLink(changes, attributes, ...children) {
  return link(toHash({ ...get().selection, page: null, ...changes }), () => select(changes), attributes, ...children);
}
