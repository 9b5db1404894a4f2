/** Links that change what the reader looks at. */

import { element } from "./dom.js";
import { select, toHash } from "./selection.js";
import { get } from "./store.js";

/** A link to a page of accounts, which leads back here. */
export function accountLink(name, text) {
  const here = ({ target }) => { target.search = new URLSearchParams({ next: location.pathname + location.hash }); };
  return element("a", { href: `/accounts/${name}/`, onpointerdown: here, onfocus: here }, text);
}

/** A link to the selection with `changes`; with a modifier key held it opens like any other link. */
export function selectionLink(changes, attributes, ...children) {
  return element("a", {
    href: toHash({ ...get().selection, page: null, ...changes }),
    ...attributes,
    onclick(event) {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      select(changes);
    },
  }, ...children);
}
