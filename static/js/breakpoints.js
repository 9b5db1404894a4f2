/** Where the next request is to be held: stages by their slug, `{step}` for a token. None can be set by who only reads. */

import { iconButton } from "./icons.js";
import { get, set } from "./store.js";

const STEP_ENDS = "sampling"; // the stage after which a step's token is chosen

/** A place on the way, in words: of a breakpoint, or where a request is held ({stage, step}). */
export function placeName(point) {
  const { stage, step } = typeof point === "string" ? { stage: point, step: null } : { stage: STEP_ENDS, ...point };
  return `${get().titles.get(stage) ?? stage}${step === null ? "" : `, step ${step}`}`;
}

export function isSet(point) {
  return (get().breakpoints ?? []).some((other) => placeName(other) === placeName(point));
}

export function toggle(point) {
  const { breakpoints } = get();
  if (breakpoints === null) return;
  set({ breakpoints: isSet(point) ? breakpoints.filter((other) => placeName(other) !== placeName(point)) : [...breakpoints, point] });
}

/** The next breakpoint on the way behind `held` ({stage, step}), null if there is none. */
export function firstAfter(held) {
  const slugs = [...get().titles.keys()];
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
