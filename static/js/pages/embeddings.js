/** Three things called embedding, side by side for this request; two of different spaces are not compared. */

import { cosine, products } from "../arithmetic.js";
import { strip } from "../charts.js";
import { element } from "../dom.js";
import { count, shape } from "../format.js";
import { agrees, contrast, facts, heading, norm, note, quantity, sum } from "../parts.js";
import { withPickers } from "../pickers.js";
import { fromViews } from "../pictures.js";
import { label } from "../tokens.js";

const picture = fromViews(
  ({ selection: { layer, position } }) => position !== null && layer !== null && {
    row: ["embeddings", { position, top: 1 }], state: ["residual_norm", { layer, position }], sentence: ["sentence", {}],
  },
  nodes,
);

export const draw = withPickers(["layer", "position"], picture, ({ response }) => (response === null
  ? "Send a prompt: the three vectors are those of your own request."
  : "The model has read nothing of this request: there are no vectors to show."));

/** The three vectors; `space` names what their coordinates belong to. */
function vectors({ row, state, sentence }, context) {
  const { layer } = context.selection;
  const token = `“${label(context.token)}”`;
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
    contrast("attention-retrieval"),
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
