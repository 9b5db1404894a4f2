/** Worked numbers: small figures that can be checked by hand, through the functions that the stages are checked with. */

import * as arithmetic from "../arithmetic.js";
import { element, swap } from "../dom.js";
import { number } from "../format.js";
import { selectionLink } from "../links.js";
import { note, quantity, table } from "../parts.js";
import { figures } from "./worked-numbers.js";

export function draw(host) {
  const [opening, ...rest] = sections();
  swap(host, opening, element("div", { class: "columns" }, rest));
  return { update() {}, destroy: () => host.replaceChildren() };
}

const list = (values) => `[${values.map((value) => number(value)).join(", ")}]`;

/** A vector's coordinates of a weighted sum over rows of values. */
function mix(weights, values) {
  const width = values[0].length;
  return values[0].map((_, coordinate) => arithmetic.sum(arithmetic.weightedTerms(weights, values.flat(), width, coordinate)));
}

function sections() {
  const { dot_products: dots, scaling, causal_mask: mask, attention_softmax: attention, weighted_sum: mixing, logits_softmax: logits, cosine, embedding_lookup: lookup } = figures;
  const weights = arithmetic.softmax(attention.scores).shares;
  const dot = arithmetic.sum(arithmetic.products(cosine.a, cosine.b));
  const { weights: simple, expected: simpleMix, tolerance: simpleTolerance } = mixing.with_illustrated_weights;
  const next = figures.next_token_distribution_illustrated;
  return [
    note(`Each result is computed here, by the functions that check the numbers of your own request; ✓ where it gives the printed figure. ${figures.source}`),
    section("embeddings", "A row of the embedding table", `row ${lookup.row} of ${lookup.table.length}`,
      lookup.table[lookup.row].map((mine, index) => ({ name: `lookup-${index}`, title: `coordinate ${index}`, mine, expected: lookup.expected[index] }))),
    section("scores", "Dot products", "pairs of numbers multiplied, then added up", dots.map(({ q, k, expected }, index) => ({
      name: `dot-${index}`, title: `${list(q)} · ${list(k)}`, mine: arithmetic.sum(arithmetic.products(q, k)), expected,
    }))),
    section("scale", "Scaled scores", `divided by √${scaling.d_k}`, scaling.scores.map((score, index) => ({
      name: `scaled-${index}`, title: number(score), mine: arithmetic.scale(score, Math.sqrt(scaling.d_k)), expected: scaling.expected[index], tolerance: scaling.tolerance,
    }))),
    section("mask", "Allowed keys of each query", "itself and every token before it", mask.tokens.map((token, position) => ({
      name: `allowed-${position}`, title: token, mine: arithmetic.numAllowedKeys(position), expected: mask.allowed_keys_per_query[position].length,
    }))),
    section("softmax", "Attention weights", `exponentials of ${list(attention.scores)}, divided by their sum`, weights.map((mine, index) => ({
      name: `weight-${index}`, title: number(attention.scores[index]), mine, expected: attention.expected[index], tolerance: attention.tolerance, illustrated: attention.illustrated[index],
    }))),
    section("weighted_sum", "Weighted sum, with the softmax’s weights", "weight times value, added up over the tokens", mix(weights, mixing.values).map((mine, index) => ({
      name: `mix-${index}`, title: `coordinate ${index}`, mine, expected: mixing.with_softmax_weights.expected[index], tolerance: mixing.with_softmax_weights.tolerance,
    }))),
    section("weighted_sum", "Weighted sum, with the simplified weights", `weights ${list(simple)}`, mix(simple, mixing.values).map((mine, index) => ({
      name: `simple-mix-${index}`, title: `coordinate ${index}`, mine, expected: simpleMix[index], tolerance: simpleTolerance,
    }))),
    section("probabilities", "Probabilities of the next token", `softmax of ${list(logits.logits)} over these ${logits.tokens.length} tokens; the simplified figures allow for all other tokens too`,
      arithmetic.softmax(logits.logits.map((logit) => logit / logits.temperature)).shares.map((mine, index) => ({
        name: `probability-${index}`, title: logits.tokens[index], mine, expected: logits.expected[index], tolerance: logits.tolerance, illustrated: next[logits.tokens[index]],
      }))),
    section("retrieval", "Cosine similarity", `${number(dot)} / (√${number(arithmetic.sum(arithmetic.products(cosine.a, cosine.a)))} · √${number(arithmetic.sum(arithmetic.products(cosine.b, cosine.b)))})`, [
      { name: "cosine-dot", title: "dot product", mine: dot, expected: cosine.dot },
      { name: "cosine", title: `${list(cosine.a)} and ${list(cosine.b)}`, mine: arithmetic.cosine(dot, arithmetic.norm(cosine.a), arithmetic.norm(cosine.b)), expected: cosine.expected, tolerance: cosine.tolerance },
    ]),
  ];
}

/** One operation: its figures computed here, beside the printed ones and, where the article simplifies, those too. */
function section(slug, title, how, rows) {
  const simplified = rows.some(({ illustrated }) => illustrated !== undefined);
  const columns = ["of", "here", "printed", ...(simplified ? ["simplified"] : [])];
  return element(
    "section", { class: "lines", "data-figure": slug },
    element("h3", {}, selectionLink({ stage: slug }, {}, title)),
    table({
      name: rows[0].name, caption: how, columns: columns.map((name, index) => ({ title: name, numeric: index > 0 })),
      rows: rows.map(({ name, title: of, mine, expected, tolerance = 0, illustrated }) => [
        of, [quantity(name, mine), " ", verdict(Math.abs(mine - expected) <= tolerance)], number(expected),
        ...(simplified ? [illustrated === undefined ? "" : number(illustrated)] : []),
      ]),
    }),
  );
}

function verdict(good) {
  return element("strong", { class: `figure-verdict${good ? "" : " alarm"}`, "data-agrees": String(good) }, good ? "✓" : "✗", element("span", { class: "visually-hidden" }, good ? " agrees with the printed figure" : " differs from the printed figure"));
}
