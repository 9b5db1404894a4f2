/** Where the next request is to be held: stages by their slug, `{step}` for a token. None can be set by who only reads. */

import { iconButton } from "./icons.js";
import { get, set } from "./store.js";

const nameOf = (point) => (typeof point === "string" ? point : `step ${point.step}`);

export function isSet(point) {
  return (get().breakpoints ?? []).some((other) => nameOf(other) === nameOf(point));
}

export function toggle(point) {
  const { breakpoints } = get();
  if (breakpoints === null) return;
  set({ breakpoints: isSet(point) ? breakpoints.filter((other) => nameOf(other) !== nameOf(point)) : [...breakpoints, point] });
}

/** A button that sets and takes back the breakpoint `pointOf()`; `refresh()` after anything has changed. */
export function createToggle(label, pointOf) {
  const node = iconButton("hold", label, { class: "hold-toggle", onclick: () => toggle(pointOf()) });
  return {
    node,
    refresh() {
      node.hidden = get().breakpoints === null;
      node.setAttribute("aria-pressed", String(isSet(pointOf())));
    },
  };
}
