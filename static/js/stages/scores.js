/** Stage 11: the dot products of one query with all keys, and one of them opened. */

import { cosine as cosineOf, largestSize, products as productsOf } from "../arithmetic.js";
import { strip } from "../charts.js";
import { count, number, plural, short } from "../format.js";
import { chosenKey, keyChip, shownKeys } from "../keys.js";
import { agrees, ends, facts, field, fold, formula, heading, norm, note, quantity, signedBar, sum, sumOfSizes, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { label, tokenAt } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence({ selection, model, token }) {
  return `Head ${selection.head} of layer ${selection.layer} compared the query of “${label(token)}” with ${plural(selection.position + 1, "key")}: multiply ${count(model.head_width)} pairs of numbers, add up, and there is one score per key.`;
}

const opening = (context) => ({ key: chosenKey(context) });

export const draw = fromView("scores", uses, ({ info: { opened }, tensors }, context) => {
  const key = chosenKey(context);
  const scores = tensors.raw.data;
  const shown = shownKeys(scores, key);
  const most = largestSize(scores);
  return [
    heading("The query against every key"),
    table({
      name: "scores", caption: `${shown.length < scores.length ? `The ${shown.length} largest of ` : ""}${plural(scores.length, "score")}; ${ends(most)}. Choose a key to open its score.`,
      columns: ["key", "score"],
      rows: shown.map((index) => ({
        selected: index === key,
        cells: [keyChip(context, index), signedBar(scores[index] / most, quantity(`score-${index}`, scores[index]))],
      })),
    }),
    heading(`The score of “${label(tokenAt(context, key))}” opened`),
    facts([
      ["dot product", field(opened, "sum")],
      ["length of the query", field(opened, "q_norm")],
      ["length of the key", field(opened, "k_norm")],
      ["angle between them", [quantity("angle", opened.angle_degrees, short), "°"]],
      ["cosine, for comparison", field(opened, "cosine")],
    ]),
    strip(tensors.q.data, { name: "query, turned by its position" }),
    strip(tensors.k.data, { name: "key, turned by its position" }),
    strip(tensors.products.data, { name: "their products, one by one" }),
    note(`The model uses the dot product ${number(opened.sum, 4)}, not the cosine: here the two lengths count. Cosine would forget them.`),
  ];
}, opening);

export const arithmetic = fromView("scores", uses, ({ info: { opened }, tensors }, context) => {
  const key = chosenKey(context);
  const q = tensors.q.data;
  const k = tensors.k.data;
  const products = productsOf(q, k);
  const total = sum(products);
  const cosine = cosineOf(total, norm(q), norm(k));
  return [
    formula(`q · k = ${products.slice(0, 4).map((one, index) => `${number(q[index], 4)} · ${number(k[index], 4)}`).join(" + ")} + … (${plural(products.length, "product")})`),
    agrees("sum", total, opened.sum, { title: "dot product", terms: sumOfSizes(products) }),
    agrees(`score-${key}`, total, tensors.raw.data[key], { title: "the same in the row of all scores", terms: sumOfSizes(products) }),
    note("Each length is the root of the sum of squares:"),
    agrees("q_norm", norm(q), opened.q_norm, { title: "query" }),
    agrees("k_norm", norm(k), opened.k_norm, { title: "key" }),
    note("The angle follows from dot product = length · length · cosine of the angle:"),
    agrees("cosine", cosine, opened.cosine, { title: "cosine", terms: 1 }),
    agrees("angle", (Math.acos(Math.max(-1, Math.min(1, cosine))) * 180) / Math.PI, opened.angle_degrees, { title: "angle in degrees", terms: 180 }),
    fold("products", `All ${products.length} products`, () => table({
      name: "products", caption: "Query times key, coordinate by coordinate",
      columns: ["coordinate", "#query", "#key", "#product", "#sum so far"],
      rows: products.map((product, index) => [
        String(index), number(q[index]), number(k[index]), number(product), number(sum(products.slice(0, index + 1))),
      ]),
    })),
  ];
}, opening);
