/** Stage 7: every token with its number in the vocabulary. */

import { count, plural } from "../format.js";
import { agrees, facts, fold, fromContext, note, quantity, table, tokensBetween } from "../parts.js";
import { chip, chips } from "../tokens.js";

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

export function draw(host, context) {
  return fromContext(host, context, ({ report, numPromptTokens }) => [report, numPromptTokens], (now) => {
    const { data } = now.report;
    const tokens = listed(now);
    return [
      facts([
        ["vocabulary", quantity("vocabulary", data.vocabulary, count)],
        ["different ids here", quantity("num_distinct", data.num_distinct, count)],
        ["smallest and largest", [quantity("smallest", data.smallest, count), " and ", quantity("largest", data.largest, count)]],
      ]),
      chips(tokens, (token) => ({ note: String(token.id) })),
      fold("ids", "As a table", () => table({
        name: "ids", caption: "Position, token, id",
        columns: [{ title: "position" }, { title: "token" }, { title: "id", numeric: true }, { title: "kind" }],
        rows: tokens.map((token) => [String(token.position), chip(token), quantity(`id-${token.position}`, token.id, String), token.kind]),
      })),
    ];
  });
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data }, numPromptTokens }) => {
    if (numPromptTokens > data.ids.length) return note("Only the first ids of this long prompt are here, so the counts cannot be checked.");
    return [
      note("The only sound arithmetic with labels is counting them:"),
      agrees("num_distinct", new Set(data.ids).size, data.num_distinct, { title: "different ids", format: count }),
      agrees("largest", Math.max(...data.ids), data.largest, { title: "largest", format: count }),
    ];
  });
}
