/** Worked numbers: small figures that can be checked by hand, through the functions that the stages are checked with. */

import * as arithmetic from "../arithmetic.js";
import { element } from "../dom.js";
import { number } from "../format.js";
import { selectionLink } from "../links.js";
import { page } from "../page-data.js";
import { note, quantity, table } from "../parts.js";

/** What gives the figures of a section from its inputs. */
const OPERATIONS = {
  lookup: ({ table: rows, row }) => rows[row],
  dot_product: ({ pairs }) => pairs.map(([a, b]) => dot(a, b)),
  scale: ({ scores, divisor_squared: size }) => scores.map((score) => arithmetic.scale(score, Math.sqrt(size))),
  allowed_keys: ({ num_positions: size }) => Array.from({ length: size }, (_, position) => arithmetic.numAllowedKeys(position)),
  softmax: ({ scores }) => arithmetic.softmax(scores).shares,
  weighted_sum: ({ scores, weights = arithmetic.softmax(scores).shares, values }) => values[0].map(
    (_, coordinate) => arithmetic.sum(arithmetic.weightedTerms(weights, values.flat(), values[0].length, coordinate))),
  cosine: ({ a, b }) => [dot(a, b), arithmetic.cosine(dot(a, b), arithmetic.norm(a), arithmetic.norm(b))],
};

const dot = (a, b) => arithmetic.sum(arithmetic.products(a, b));

export function draw(host) {
  const { source, sections } = page.worked_numbers;
  host.append(
    note(`Each result is computed here, by the functions that check the numbers of your own request; ✓ where it gives the printed figure. ${source}`),
    element("div", { class: "columns" }, sections.map(section)),
  );
  return {};
}

/** One operation: its figures computed here, beside the printed ones and, where the article simplifies, those too. */
function section({ name, stage, title, how, operation, inputs, figures }) {
  const results = OPERATIONS[operation](inputs);
  const simplified = figures.some((figure) => figure.simplified !== null);
  return element(
    "section", { class: "lines", "data-figure": stage },
    element("h3", {}, selectionLink({ stage }, {}, title)),
    table({
      name, caption: how, columns: ["of", "#here", "#printed", ...(simplified ? ["#simplified"] : [])],
      rows: figures.map((figure, index) => [
        figure.of, [quantity(`${name}-${index}`, results[index]), " ", verdict(Math.abs(results[index] - figure.printed) <= figure.tolerance)],
        number(figure.printed), ...(simplified ? [figure.simplified !== null && number(figure.simplified)] : []),
      ]),
    }),
  );
}

function verdict(good) {
  return element("strong", { class: `figure-verdict${good ? "" : " alarm"}`, "data-agrees": String(good) }, good ? "✓" : "✗", element("span", { class: "visually-hidden" }, good ? " agrees with the printed figure" : " differs from the printed figure"));
}
