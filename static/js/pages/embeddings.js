/** Three things called embedding, side by side for this request; two of different spaces are not compared. */

import { cosine, products } from "../arithmetic.js";
import { strip } from "../charts.js";
import { element, swap } from "../dom.js";
import { count, shape } from "../format.js";
import { agrees, facts, followViews, heading, norm, note, quantity, sum, table, tokenAt } from "../parts.js";
import { createPickers } from "../pickers.js";
import { label } from "../tokens.js";

const AGAINST = [
  ["compares", "one position with all before it", "one text with all stored texts"],
  ["by", "dot product of query and key, scaled", "cosine of two vectors"],
  ["made by", "matrices of this model, in each layer and head", "a second, smaller model"],
  ["how often", "in every layer, for every token", "once a request, before the model runs"],
  ["gives", "a mixture of vectors", "pieces of text, put into the prompt"],
  ["can be looked up", "no: it is computed and gone", "yes: the vectors are stored"],
];

export function draw(host, context) {
  const pickers = createPickers();
  const box = element("div", { class: "stage-picture" });
  host.append(pickers.node, box);
  const queries = ({ selection: { layer, position } }) => position !== null && layer !== null && {
    row: ["embeddings", { position, top: 1 }], state: ["residual_norm", { layer, position }], sentence: ["sentence", {}],
  };
  const life = followViews(box, context, queries, (views, now) => swap(box, nodes(views, now)));
  const update = (next) => {
    const { position, layer } = next.selection;
    const isRead = position !== null && layer !== null;
    pickers.update(isRead ? ["layer", "position"] : [], next);
    if (!isRead) swap(box, note(next.response === null ? "Send a prompt: the three vectors are those of your own request." : "The model has read nothing of this request: there are no vectors to show."));
    life.update(next);
  };
  update(context);
  return { update, destroy: life.destroy };
}

/** The three vectors; `space` names what their coordinates belong to. */
function vectors({ row, state, sentence }, context) {
  const { layer, position } = context.selection;
  const token = `“${label(tokenAt(context, position))}”`;
  const space = `residual stream of ${context.model.name}`;
  return [
    { name: "row", title: `Token row of ${token}`, space, values: row.tensors.row.data, sentence: "The row of a table. It is the same in every sentence, and was learned with the model." },
    { name: "state", title: `Contextual state of ${token}`, space, values: state.tensors.new.data, sentence: `What that position carries after layer ${layer}: the row, and what all layers up to here have added. Another sentence gives another state.` },
    { name: "sentence", title: "Retrieval vector of your message", space: sentence.info.encoder, values: sentence.tensors.vector.data, sentence: "One vector for the whole message, made by another model, to be compared with vectors of documents. The language model never sees it." },
  ];
}

function nodes(views, context) {
  const all = vectors(views, context);
  return [
    element("div", { class: "columns" }, all.map(({ name, title, space, values, sentence }) => element(
      "section", { class: "lines", "data-embedding": name },
      element("h3", {}, title), note(sentence),
      facts([["space", space], ["numbers", quantity(`${name}-width`, values.length, count)], ["length", quantity(`${name}-norm`, norm(values))]]),
      strip(values, { name: `${shape([values.length])}`, perRow: 32 }),
    ))),
    heading("May they be compared?"),
    [[0, 1], [0, 2], [1, 2]].map(([one, other]) => comparison(all[one], all[other])),
    note("For the pair in one space, the state entering layer 0 is the row itself: there the cosine is 1, and it falls as the layers add to it."),
    table({
      name: "against", caption: "Attention is not retrieval", columns: [{ title: "" }, { title: "attention" }, { title: "retrieval" }], rows: AGAINST,
    }),
    agrees("row-norm-served", norm(all[0].values), views.row.info.norm, { title: "length of the row" }),
  ];
}

/** The cosine of two vectors of one space; between spaces a refusal with its reason. */
function comparison(a, b) {
  const pair = `${a.title} and ${b.title}: `;
  const name = `${a.name}-${b.name}`;
  if (a.space !== b.space) {
    return element("p", { "data-refused": name }, pair, element("strong", {}, "refused. "),
      `Coordinate 0 of the one has nothing to do with coordinate 0 of the other: ${count(a.values.length)} numbers of the ${a.space} against ${count(b.values.length)} of the ${b.space}, learned apart. A cosine of them would be a number without a meaning.`);
  }
  return element("p", {}, pair, "cosine ", quantity(`cosine-${name}`, cosine(sum(products(a.values, b.values)), norm(a.values), norm(b.values))), ".");
}
