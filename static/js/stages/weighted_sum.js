/** Stage 15: the values, mixed by the weights of one query. */

import { largestSize, weightedTerms } from "../arithmetic.js";
import { strip } from "../charts.js";
import { count, number, percent, plural } from "../format.js";
import { chosenKey, keyChip, numKeys, shownKeys } from "../keys.js";
import { agrees, bar, ends, facts, fold, formula, norm, note, quantity, signedBar, sum, sumOfSizes, table } from "../parts.js";
import { fromView, slider } from "../pictures.js";
import { label, tokenAt } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { selection, model, token } = context;
  return `Each of ${plural(numKeys(context), "position")} offered ${count(model.head_width)} numbers, its value; their average, weighted by attention, is what head ${selection.head} hands on for “${label(token)}”.`;
}

const termsOf = ({ weights, values }, coordinate) => weightedTerms(weights.data, values.data, values.shape[1], coordinate);

export const draw = slider({ name: "coordinate", size: ({ model }) => model.head_width }, (chosen) =>
  fromView("weighted_sum", uses, ({ tensors }, context) => {
    const coordinate = chosen();
    const { weights, values, output } = tensors;
    const terms = termsOf(tensors, coordinate);
    const most = largestSize(terms);
    const keys = Array.from(tensors.keys.data);
    const open = keys.indexOf(chosenKey(context));
    const shown = shownKeys(weights.data, open);
    const width = values.shape[1];
    return [
      facts([
        ["length of the output", quantity("norm", norm(output.data))],
        [`coordinate ${coordinate} of the output`, quantity(`output-${coordinate}`, output.data[coordinate])],
      ]),
      strip(output.data, { name: "the head's output for this position" }),
      open >= 0 && strip(values.data.subarray(open * width, (open + 1) * width), {
        name: `the value of “${label(tokenAt(context, keys[open]))}”, of which ${percent(weights.data[open])} was taken`,
      }),
      table({
        name: "terms", caption: `Coordinate ${coordinate}, term by term; ${ends(most)}${shown.length < terms.length ? `; the ${shown.length} largest weights of ${terms.length}` : ""}`,
        columns: ["key", "weight", "#value", "weight × value"],
        rows: shown.map((index) => ({
          selected: index === open,
          cells: [
            keyChip(context, keys[index]), bar(weights.data[index], number(weights.data[index])),
            number(values.data[index * width + coordinate]), signedBar(terms[index] / most, quantity(`term-${keys[index]}`, terms[index])),
          ],
        })),
      }),
    ];
  }));

export const arithmetic = fromView("weighted_sum", uses, ({ info, tensors }) => {
  if (tensors.keys.data.length < info.position + 1) return note("Only the heaviest keys of this long text came, so the sum cannot be made whole here.");
  const check = (coordinate) => {
    const terms = termsOf(tensors, coordinate);
    return [
      formula(`coordinate ${coordinate}: ${terms.slice(0, 3).map((term) => number(term, 4)).join(" + ")}${terms.length > 3 ? ` + … (${terms.length} terms)` : ""}`),
      agrees(`output-${coordinate}`, sum(terms), tensors.output.data[coordinate], { terms: sumOfSizes(terms) * 100 }),
    ];
  };
  return [
    check(0), check(1),
    fold("coordinates", "The other coordinates", () => Array.from({ length: tensors.output.data.length - 2 }, (_, index) => check(index + 2))),
    note("The weights add up to 1, so this is an average: no coordinate can leave the range of the values."),
  ];
});
