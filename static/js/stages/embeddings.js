/** Stage 8: the row of the embedding table for one token, and the tokens whose rows point the same way. */

import { cosine, products as productsOf } from "../arithmetic.js";
import { strip } from "../charts.js";
import { element } from "../dom.js";
import { count, number, shape, short } from "../format.js";
import { agrees, facts, field, fold, formula, norm, note, quantity, signedBar, sum, sumOfSizes, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { chip, label, named } from "../tokens.js";

export const uses = ["position"];

export function sentence({ token, model }) {
  return `The id ${token.id ?? ""} of “${label(token)}” points to one row of a table: ${count(model.width)} numbers learned in training, the same in every sentence. From here on the model works with these numbers alone.`;
}

const tenNearest = () => ({ top: 10 });

export const draw = fromView("embeddings", uses, ({ info, tensors }, { token }) => {
  const row = tensors.row.data;
  return [
    facts([
      ["token", chip(token)],
      ["id", quantity("id", info.token, String)],
      ["numbers in the row", quantity("width", row.length, count)],
      ["length of the vector", field(info, "norm")],
      ["the first state is the row times", info.multiplier === 1 ? null : field(info, "multiplier")],
      ["the whole table", shape(info.table_shape)],
    ]),
    strip(row, { name: `The row of “${label(token)}”, 64 numbers a line` }),
    table({
      name: "nearest", caption: "Rows of the table that point the same way, by cosine from −1 to 1",
      columns: ["token", "#id", "cosine"],
      rows: info.nearest_ids.map((id, index) => {
        const value = tensors.nearest_cosines.data[index];
        return [chip(named(id, info.token_texts)), String(id), signedBar(value, quantity(`cosine-${id}`, value, short))];
      }),
    }),
    fold("row", "The row as numbers", () => table({
      name: "row", caption: "Coordinate and value", columns: ["coordinate", "#value"],
      rows: Array.from(row, (value, index) => [String(index), number(value)]),
    })),
  ];
}, tenNearest);

export const arithmetic = fromView("embeddings", uses, ({ info, tensors }, context) => {
  const row = tensors.row.data;
  const [nearest] = info.nearest_ids;
  const neighbour = element("div", { class: "stage-arithmetic" });
  fromView("embeddings", [], (other) =>
    cosineOf(row, other.tensors.row.data, label(named(nearest, info.token_texts)), nearest, tensors.nearest_cosines.data[0]),
  () => ({ token: nearest, top: 10 }))(neighbour, context);
  return [
    note(`The length is the square root of the sum of ${count(row.length)} squares:`),
    agrees("norm", norm(row), info.norm, { terms: sumOfSizes(row) }),
    neighbour,
  ];
}, tenNearest);

function cosineOf(row, other, name, id, served) {
  const products = productsOf(row, other);
  return [
    note(`The cosine divides the dot product with the row of “${name}” by both lengths:`),
    formula(`${number(sum(products))} / (${number(norm(row))} · ${number(norm(other))})`),
    agrees(`cosine-${id}`, cosine(sum(products), norm(row), norm(other)), served),
  ];
}
