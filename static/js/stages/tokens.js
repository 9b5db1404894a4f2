/** Stage 6: the split of the prompt, with blanks and split characters visible, and the merges that led there. */

import { element } from "../dom.js";
import { count, plural, short } from "../format.js";
import { agrees, facts, fold, fromContext, heading, note, quantity, table } from "../parts.js";
import { chip, chips, joinedText, label } from "../tokens.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const [from, to] = data.user_span;
  return `The prompt of ${plural(data.num_characters, "character")} was cut into ${plural(data.num_tokens, "token")}; your own text is ${count(to - from)} of them. The cuts come from counting which pieces are frequent, not from grammar.`;
}

const pieces = ({ tokens, report }) => tokens.slice(0, report.data.pieces.length);

export function draw(host, context) {
  return fromContext(host, context, ({ report }) => [report], (now) => {
    const { data } = now.report;
    const shown = pieces(now);
    const [from, to] = data.user_span;
    const kinds = new Map();
    for (const { kind } of shown) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
    return [
      facts([
        ["tokens", quantity("num_tokens", data.num_tokens, count)],
        ["characters", quantity("num_characters", data.num_characters, count)],
        ["bytes", quantity("num_bytes", data.num_bytes, count)],
        ["characters per token", quantity("characters_per_token", data.num_characters / data.num_tokens, short)],
      ]),
      heading("Your text"),
      chips(shown.slice(from, to)),
      heading(`The whole prompt${shown.length < data.num_tokens ? `: its first ${count(shown.length)} tokens` : ""}`),
      chips(shown),
      note("· is a space, ↵ a new line, ⇥ a tab; joined chips are pieces of one character. What you copy is the real text."),
      table({
        name: "kinds", caption: "Kinds of token",
        columns: [{ title: "kind" }, { title: "tokens", numeric: true }],
        rows: [...kinds].map(([kind, size]) => [
          element("span", { class: "token", "data-kind": kind }, kind), quantity(`kind-${kind}`, size, count),
        ]),
      }),
      data.merges.length > 0 && [
        heading("The merges behind your words"),
        note("The tokenizer starts from single bytes and joins neighbouring pieces, the most frequent pair of its training first."),
        element("ol", { class: "merges" }, data.merges.slice(0, 12).map(merge)),
        data.merges.length > 12 && fold("merges", `${plural(data.merges.length - 12, "more merge")}`, () =>
          element("ol", { class: "merges", start: 13 }, data.merges.slice(12).map(merge))),
      ],
    ];
  });
}

function merge([left, right, merged]) {
  const piece = (text) => chip({ id: null, text, kind: "merge" }, { title: label({ text }) });
  return element("li", {}, piece(left), " + ", piece(right), " → ", piece(merged));
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report }) => [report], (now) => {
    const { data } = now.report;
    const shown = pieces(now);
    if (shown.length < data.num_tokens) return note("Only the first tokens of this long prompt are here, so the counts cannot be checked.");
    const whole = joinedText(shown);
    return [
      note("Put back together, the tokens must give the text, character by character and byte by byte:"),
      agrees("num_characters", [...whole].length, data.num_characters, { title: "characters", format: count }),
      agrees("num_bytes", new TextEncoder().encode(whole).length, data.num_bytes, { title: "bytes", format: count }),
      agrees("num_tokens", shown.length, data.num_tokens, { title: "tokens", format: count }),
    ];
  });
}
