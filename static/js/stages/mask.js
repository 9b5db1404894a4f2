/** Stage 13: which keys a query may look at. */

import { numAllowedKeys, sum } from "../arithmetic.js";
import { count, number, plural } from "../format.js";
import { agrees, facts, formula, fromViews, note, quantity, table, tokenAt, tokensBetween } from "../parts.js";
import { maskSquare } from "../charts.js";
import { numKeys } from "../keys.js";
import { chip, label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const token = tokenAt(context, context.selection.position);
  const before = numKeys(context) - 1;
  const last = before < context.selection.position ? "last " : "";
  return `“${label(token)}” at position ${context.selection.position} may look at itself and the ${last}${plural(before, "position")} before it, and at nothing later: what comes next must stay unknown while it is being predicted.`;
}

const queries = ({ selection: { layer, head, position } }) =>
  position !== null && layer !== null && { rows: ["mask", { layer, head, position }] };

export function draw(host, context) {
  return fromViews(host, context, queries, ({ rows: { info, tensors } }, now) => {
    const { before, after, allowed } = tensors;
    const size = before.data.length;
    const { position } = now.selection;
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
        columns: [{ title: "key" }, { title: "scaled score", numeric: true }, { title: "allowed" }, { title: "after the mask", numeric: true }],
        rows: tokensBetween(now, from, to).map((token) => ({
          selected: token.position === position,
          class: allowed.data[token.position] ? "" : "row-muted",
          cells: [
            chip(token, { note: String(token.position) }), number(before.data[token.position]), allowed.data[token.position] ? "yes" : "no",
            quantity(`masked-${token.position}`, after.data[token.position]),
          ],
        })),
      }),
      note("A forbidden score becomes minus infinity, whose exponential is exactly 0."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ rows: { info } }, { selection }) => [
    formula(`positions 0 to ${selection.position}: ${selection.position} + 1 keys${info.window === null ? "" : `, of which the last ${info.window} count`}`),
    agrees("allowed", numAllowedKeys(selection.position, info.window), info.num_allowed, { format: count }),
  ]);
}
