/** Stage 7: every token with its number in the vocabulary. */

import { count, plural } from "../format.js";
import { agrees, facts, field, fold, note, quantity, table } from "../parts.js";
import { fromReport } from "../pictures.js";
import { chip, chips, tokensBetween } from "../tokens.js";

export const uses = [];

export function sentence({ report: { data } }) {
  return `Each token became its number in a vocabulary of ${count(data.vocabulary)}; ${plural(data.num_distinct, "different number")} occur here. The numbers are labels, like numbers on lockers: a larger one is not more of anything.`;
}

/** The tokens of the report, under the report's own ids. */
function listed(context) {
  return tokensBetween(context, 0, context.report.data.ids.length).map((token, index) => ({
    ...token, id: context.report.data.ids[index],
  }));
}

export const draw = fromReport((data, context) => {
  const tokens = listed(context);
  return [
    facts([
      ["vocabulary", field(data, "vocabulary", count)],
      ["different ids here", field(data, "num_distinct", count)],
      ["smallest and largest", [field(data, "smallest", count), " and ", field(data, "largest", count)]],
    ]),
    chips(tokens, (token) => ({ note: String(token.id) })),
    fold("ids", "As a table", () => table({
      name: "ids", caption: "Position, token, id", columns: ["position", "token", "#id", "kind"],
      rows: tokens.map((token) => [String(token.position), chip(token), quantity(`id-${token.position}`, token.id, String), token.kind]),
    })),
  ];
}, ({ numPromptTokens }) => [numPromptTokens]);

export const arithmetic = fromReport(({ ids, ...data }, { numPromptTokens }) => {
  if (numPromptTokens > ids.length) return note("Only the first ids of this long prompt are here, so the counts cannot be checked.");
  return [
    note("The only sound arithmetic with labels is counting them:"),
    agrees("num_distinct", new Set(ids).size, data.num_distinct, { title: "different ids", format: count }),
    agrees("largest", Math.max(...ids), data.largest, { title: "largest", format: count }),
  ];
});
