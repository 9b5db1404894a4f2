/** Stage 13: which keys a query may look at. */

import { numAllowedKeys, sum } from "../arithmetic.js";
import { maskSquare } from "../charts.js";
import { count, number, plural } from "../format.js";
import { numKeys } from "../keys.js";
import { agrees, facts, formula, quantity, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { chip, label, tokensBetween } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { position } = context.selection;
  const before = numKeys(context) - 1;
  return `“${label(context.token)}” at position ${position} may look at itself and the ${before < position ? "last " : ""}${plural(before, "position")} before it, and at nothing later: what comes next must stay unknown while it is being predicted.`;
}

export const draw = fromView("mask", uses, ({ info, tensors: { before, after, allowed } }, context) => {
  const size = before.data.length;
  const { position } = context.selection;
  const from = Math.max(0, Math.min(position - 8, size - 16));
  const to = Math.min(size, from + 16);
  return [
    facts([
      ["allowed keys of this query", quantity("allowed", info.num_allowed, count)],
      ["forbidden", quantity("forbidden", info.num_forbidden, count)],
      ["allowed cells of the whole square", quantity("allowed_cells", sum(Array.from({ length: size }, (_, row) => numAllowedKeys(row, info.window))), count)],
      ["window of this layer", info.window && `the last ${plural(info.window, "key")}, its own included`],
    ]),
    maskSquare({ size, row: position, window: info.window }),
    table({
      name: "masked", caption: `Keys ${from} to ${to - 1} around the query`,
      columns: ["key", "#scaled score", "allowed", "#after the mask"],
      rows: tokensBetween(context, from, to).map((token) => {
        const isAllowed = allowed.data[token.position];
        return {
          selected: token.position === position,
          class: isAllowed ? "" : "row-muted",
          cells: [
            chip(token, { note: String(token.position) }), number(before.data[token.position]), isAllowed ? "yes" : "no",
            quantity(`masked-${token.position}`, after.data[token.position]),
          ],
        };
      }),
    }),
  ];
});

export const arithmetic = fromView("mask", uses, ({ info }, { selection: { position } }) => [
  formula(`positions 0 to ${position}: ${position} + 1 keys${info.window === null ? "" : `, of which the last ${info.window} count`}`),
  agrees("allowed", numAllowedKeys(position, info.window), info.num_allowed, { format: count }),
]);
