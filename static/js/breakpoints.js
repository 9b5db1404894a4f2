/** Where the next request is to be held: stages by their slug, `{step}` for a token. None can be set by who only reads. */

import { iconButton } from "./icons.js";
import { get, set } from "./store.js";

const STEP_ENDS = "sampling"; // the stage after which a step's token is chosen

const nameOf = (point) => (typeof point === "string" ? point : `step ${point.step}`);

export function isSet(point) {
  return (get().breakpoints ?? []).some((other) => nameOf(other) === nameOf(point));
}

export function toggle(point) {
  const { breakpoints } = get();
  if (breakpoints === null) return;
  set({ breakpoints: isSet(point) ? breakpoints.filter((other) => nameOf(other) !== nameOf(point)) : [...breakpoints, point] });
}

/** The next breakpoint on the way behind `held` ({stage, step}), null if there is none; `slugs` are the stages in order. */
export function firstAfter(held, slugs) {
  const placeOf = (stage, step) => [slugs.indexOf(stage), step ?? 0];
  const compare = ([a, stepA], [b, stepB]) => a - b || stepA - stepB;
  const here = placeOf(held.stage, held.step);
  const ahead = (get().breakpoints ?? [])
    .map((point) => ({ point, place: typeof point === "string" ? placeOf(point) : placeOf(STEP_ENDS, point.step) }))
    .filter(({ place }) => compare(place, here) > 0)
    .sort((one, other) => compare(one.place, other.place));
  return ahead[0]?.point ?? null;
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
