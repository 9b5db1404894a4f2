/** What stages that look at one query and its keys share. */

import { numAllowedKeys } from "./arithmetic.js";
import { plural } from "./format.js";
import { chip, tokenAt } from "./tokens.js";

const MANY = 48;

/** The key that is opened: the chosen one, else the one before the query. */
export function chosenKey({ selection: { key, position } }) {
  return key ?? Math.max(0, position - 1);
}

/** How many keys the chosen query may look at in the chosen layer. */
export function numKeys({ model, selection: { layer, position } }) {
  return numAllowedKeys(position, model.windows[layer]);
}

/** A key as a button that opens it. */
export function keyChip(context, position) {
  return chip(tokenAt(context, position), {
    note: String(position), focus: `key-${position}`, selected: position === chosenKey(context),
    onclick: () => context.select({ key: position }),
  });
}

/** Positions worth a row each: all while they are few, else the largest values and the chosen one, in order. */
export function shownKeys(values, chosen, most = MANY) {
  const all = Array.from(values, (_, index) => index);
  if (all.length <= most) return all;
  const largest = all.sort((a, b) => values[b] - values[a]).slice(0, most);
  if (!largest.includes(chosen)) largest[most - 1] = chosen;
  return largest.sort((a, b) => a - b);
}

/** The end of a caption where only some keys have a row. */
export function ofAll(shown, all) {
  return shown.length < all.length ? `; the ${shown.length} largest of ${plural(all.length, "key")}` : "";
}
