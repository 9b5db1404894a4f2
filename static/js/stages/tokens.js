/** Stage 6: the split of the prompt, with blanks and split characters visible, and the merges that led there. */

import { button, element, setText } from "../dom.js";
import { count, plural, short } from "../format.js";
import { agrees, facts, field, fold, heading, note, quantity, table } from "../parts.js";
import { fromReport, fromViews, sections } from "../pictures.js";
import { chip, chips, joinedText, label } from "../tokens.js";

export const uses = [];
const PAGE = 512; // later tokens shown at once

export function sentence({ report: { data } }) {
  const [from, to] = data.user_span;
  return `The prompt of ${plural(data.num_characters, "character")} was cut into ${plural(data.num_tokens, "token")}; your own text is ${count(to - from)} of them. The cuts come from counting which pieces are frequent, not from grammar.`;
}

const pieces = ({ tokens, report }) => tokens.slice(0, report.data.pieces.length);

const split = fromReport((data, now) => {
  const shown = pieces(now);
  const [from, to] = data.user_span;
  const kinds = new Map();
  for (const { kind } of shown) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  return [
    facts([
      ["tokens", field(data, "num_tokens", count)],
      ["characters", field(data, "num_characters", count)],
      ["bytes", field(data, "num_bytes", count)],
      ["characters per token", quantity("characters_per_token", data.num_characters / data.num_tokens, short)],
    ]),
    heading("Your text"),
    chips(shown.slice(from, to)),
    heading(`The whole prompt${shown.length < data.num_tokens ? `: its first ${count(shown.length)} tokens` : ""}`),
    chips(shown),
    note("· is a space, ↵ a new line, ⇥ a tab; joined chips are pieces of one character. What you copy is the real text."),
    table({
      name: "kinds", caption: "Kinds of token",
      columns: ["kind", "#tokens"],
      rows: [...kinds].map(([kind, size]) => [
        element("span", { class: "token", "data-kind": kind }, kind), quantity(`kind-${kind}`, size, count),
      ]),
    }),
    data.merges.length > 0 && [
      heading("The merges behind your words"),
      note("The tokenizer starts from single bytes and joins neighbouring pieces, the most frequent pair of its training first."),
      merges("merges", data.merges),
    ],
  ];
});

/** The user's text as every loaded model would split it, where there are several. */
const models = fromViews(
  ({ models: loaded }) => loaded.length > 1 && Object.fromEntries(loaded.map(({ name }) => [name, ["message_tokens", { model: name }]])),
  (views) => [
    heading("Your text by itself, as each model loaded here would split it"),
    element("div", { class: "columns" }, Object.entries(views).map(([name, { info }]) => element(
      "div", { class: "lines", "data-model": name }, element("strong", {}, name),
      facts([
        ["tokens", quantity("num_tokens", info.num_tokens, count)],
        ["characters per token", quantity("characters_per_token", info.num_characters / info.num_tokens, short)],
        ["vocabulary", quantity("vocabulary", info.vocabulary, count)],
      ]),
      chips(info.pieces),
      info.pieces.length < info.num_tokens && note(`The first ${count(info.pieces.length)}.`),
      info.left_out && note(`It has no tokens for ${info.left_out}, and would read the text without.`),
    ))),
    note("A number of tokens says nothing without its tokenizer: each model reads ids of its own vocabulary only."),
  ],
);

function merges(name, all) {
  return [
    element("ol", { class: "merges" }, all.slice(0, 12).map(merge)),
    all.length > 12 && fold(name, `${plural(all.length - 12, "more merge")}`, () =>
      element("ol", { class: "merges", start: 13 }, all.slice(12).map(merge))),
  ];
}

/** The later tokens of a long prompt, which the report leaves out, a page at a time. */
function drawRest(host, context) {
  const { num_tokens: length, pieces: { length: first } } = context.report.data;
  let latest = context;
  let from = first;
  host.hidden = first >= length;
  if (host.hidden) return { update() {}, destroy() {} };
  const said = element("span", { role: "status" });
  const turn = (title, by) => button(title, () => { from += by; show(); });
  const [back, forward] = [turn("Earlier", -PAGE), turn("Later", PAGE)];
  const picture = element("div", { class: "stage-picture" });
  host.append(heading("Its later tokens"), element("p", {}, back, " ", said, " ", forward), picture);

  const life = fromViews(({ steps }) => steps.length > 0 && { page: ["tokens", bounds()] }, ({ page: { info } }) => [
    chips(info.pieces),
    info.merges.length > 0 && [heading("The merges behind these words"), merges("later-merges", info.merges)],
    info.num_merges > info.merges.length && note(`The first ${count(info.merges.length)} of ${plural(info.num_merges, "merge")}.`),
  ])(picture, context);

  function bounds() {
    return { position_from: from, position_to: Math.min(length, from + PAGE) };
  }

  function show() {
    const { position_from: start, position_to: stop } = bounds();
    setText(said, `positions ${start} to ${stop - 1} of ${count(length)}`);
    back.disabled = from <= first;
    forward.disabled = stop >= length;
    life.update(latest);
  }

  show();
  return {
    update(next) {
      latest = next;
      life.update(next);
    },
    destroy: life.destroy,
  };
}

function merge([left, right, merged]) {
  const piece = (text) => chip({ id: null, text, kind: "merge" }, { title: label({ text }) });
  return element("li", {}, piece(left), " + ", piece(right), " → ", piece(merged));
}

export const draw = sections({ pieces: split, models, rest: drawRest });

export const arithmetic = fromReport((data, now) => {
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
