/** Stage 10: query, key and value of one position in one head. */

import { element } from "../dom.js";
import { strip } from "../charts.js";
import { count, shape } from "../format.js";
import { agrees, facts, norm, note, quantity, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

const NAMED = { q: "query", k: "key", v: "value", normed: "normalised state", q_normed: "query, normalised", k_normed: "key, normalised" };
const NAMES = { q: "query: what this position looks for", k: "key: what it can be found by", v: "value: what it hands on" };

export function sentence({ selection, model, token }) {
  return `In layer ${selection.layer} the ${count(model.width)} numbers of “${label(token)}” were multiplied with three learned matrices; head ${selection.head} got ${count(model.head_width)} numbers each as query, key and value.`;
}

export const draw = fromView("qkv", uses, ({ info, tensors }, { model, selection }) => [
  facts([
    ["layer", String(selection.layer)],
    ["query head", String(selection.head)],
    ["key and value head", `${info.kv_head}, shared by ${model.n_heads / model.n_kv_heads} query heads`],
  ]),
  Object.entries(NAMES).map(([name, title]) => strip(tensors[name].data, { name: `${title}, ${shape(tensors[name].shape)}` })),
  "q_normed" in tensors && [
    note("This model brings every head's query and key to a common size before their turn, as it does with whole states:"),
    ["q_normed", "k_normed"].map((name) => strip(tensors[name].data, { name: NAMED[name] })),
  ],
  strip(tensors.normed.data, { name: `what all three were made from: the normalised state, ${shape(tensors.normed.shape)}` }),
  table({
    name: "matrices", caption: "The three products", columns: ["result", "matrix", "#length of the result"],
    rows: Object.keys(NAMES).map((name) => [
      name.toUpperCase(), element("code", {}, shape(info.weight_shapes[name])), quantity(`norm-${name}`, info.norms[name]),
    ]),
  }),
  note(`The names come from searching, but nothing is looked up: each is a list of numbers from a matrix product${info.bias ? " plus a learned bias" : ""}. Query and key are shown before their turn by position.`),
]);

export const arithmetic = fromView("qkv", uses, ({ info, tensors }) => [
  note("Each length is the square root of the sum of the squares:"),
  Object.keys(info.norms).map((name) => agrees(`norm-${name}`, norm(tensors[name].data), info.norms[name], { title: NAMED[name] })),
]);
