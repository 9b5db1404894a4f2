/** One query and the keys it read, joined by lines that carry the weights. */

import { element, shape } from "./dom.js";
import { percent, plural } from "./format.js";
import { chosenKey, keyChip, shownKeys } from "./keys.js";
import { note, quantity, sum } from "./parts.js";
import { numPositions } from "./selection.js";
import { chip, tokenAt } from "./tokens.js";

const MOST = 20; // rows a side
const WIDEST_PX = 9;
const FAINTEST = 0.3; // opacity

/** `weights` is the row of the chosen query. Arrow keys walk a side; a token on the left becomes the query. */
export function attentionLines(weights, now) {
  const query = now.selection.position;
  const length = numPositions(now.numPromptTokens, now.steps);
  const num = Math.min(MOST, length);
  const from = Math.max(0, Math.min(query - num / 2, length - num));
  const queries = Array.from({ length: num }, (_, row) => from + row);
  const keys = shownKeys(weights, chosenKey(now), MOST);
  const rows = Math.max(num, keys.length);
  const top = weights.subarray(1).reduce((largest, weight) => Math.max(largest, weight), 0);
  return [
    element(
      "div", { class: "attention-lines", vars: { rows }, onkeydown: walk },
      element("ul", { "aria-label": "Queries" }, queries.map((position) => element("li", {}, oneStop(chip(tokenAt(now, position), {
        note: String(position), focus: `query-${position}`, selected: position === query, onclick: () => now.select({ position }),
      }))))),
      element("ul", { "aria-label": "Keys it read" }, keys.map((index, row) => element(
        "li", {}, oneStop(keyChip(now, index)), quantity(`line-${index}`, weights[index], percent),
        weights[index] > 0 && line(query - from, row, rows, weights[index] / (top || 1)),
      ))),
    ),
    note(
      keys.length < weights.length && `${keys.length} of ${plural(weights.length, "key")}, the strongest and the chosen one: ${percent(sum(keys.map((index) => weights[index])))} of the row. `,
      top > 0 && `Width and opacity of a line run from 0 to ${percent(top)}, the largest weight beside position 0, which is left out of the range${weights[0] > top ? ": its line is dashed" : ""}. `,
      "A token on the left becomes the query, one on the right is opened below.",
    ),
  ];
}

/** The line of a weight that is `share` of the range's end, from row to row of `rows`. */
function line(from, to, rows, share) {
  const size = Math.min(1, share);
  return shape(
    "svg", { viewBox: `0 0 1 ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    shape("path", {
      d: `M0 ${from + 0.5}C.5 ${from + 0.5} .5 ${to + 0.5} 1 ${to + 0.5}`, "vector-effect": "non-scaling-stroke",
      "stroke-width": size * WIDEST_PX + 0.5, opacity: FAINTEST + size * (1 - FAINTEST), ...(share > 1 && { "stroke-dasharray": "6 3" }),
    }),
  );
}

/** Of a side's tokens only the chosen one is a stop of the Tab key. */
function oneStop(button) {
  button.tabIndex = button.ariaPressed === "true" ? 0 : -1;
  return button;
}

function walk(event) {
  const to = { ArrowUp: "previousSibling", ArrowDown: "nextSibling" }[event.key];
  const next = to && event.target.closest("li")[to];
  if (!next) return;
  event.preventDefault();
  next.firstChild.focus();
}
