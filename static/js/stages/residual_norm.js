/** Stage 17: the state of a position through the layers: old state plus updates, and the norm before each part. */

import { lines } from "../charts.js";
import { number } from "../format.js";
import { agrees, fold, formula, heading, norm, note, quantity, sumOfSizes, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { label } from "../tokens.js";

export const uses = ["layer", "position"];

export function sentence({ selection, model, token }) {
  return `Nothing was overwritten: in layer ${selection.layer} of ${model.n_layers} the update of attention, then that of the feed-forward part, was added to what “${label(token)}” already carried. Before each part a copy was brought to a common size.`;
}

const PARTS = [
  ["old", "old state"], ["attention_update", "+ attention update"], ["middle", "= state between"],
  ["feed_forward_update", "+ feed-forward update"], ["new", "= new state"],
];
const ADDED = ["old", "attention_update", "feed_forward_update"];
const FIRST = [0, 1, 2, 3]; // coordinates that are shown

export const draw = fromView("residual_norm", uses, ({ info, tensors }, { model, selection: { layer }, select }, chart) => {
  const norms = Array.from(tensors.norms.data);
  return [
    heading("Length of the state entering each layer; the last point is after the final norm"),
    chart("norms", lines, {
      series: [{ name: "length", values: norms }], x: { title: "layer" }, y: { title: "length" }, selected: layer,
      onPoint: (index) => index < model.n_layers && select({ layer: index }),
    }),
    fold("norms", "As a table", () => table({
      name: "norms", caption: "Length of the state entering each layer", columns: ["layer", "#length"],
      rows: norms.map((size, index) => [index < model.n_layers ? String(index) : "after the final norm", quantity(`norm-${index}`, size)]),
    })),
    heading(`Layer ${layer}`),
    table({
      name: "updates", caption: "Old state + updates = new state: lengths and first coordinates",
      columns: ["state", "#length", ...FIRST.map((index) => `#[${index}]`)],
      rows: PARTS.map(([name, title]) => [
        title, quantity(`${name}_norm`, info.vector_norms[name]), ...FIRST.map((index) => number(tensors[name].data[index], 4)),
      ]),
    }),
  ];
});

export const arithmetic = fromView("residual_norm", uses, ({ info, tensors }) => {
  const check = (index) => {
    const [old, attention, feedForward] = ADDED.map((name) => tensors[name].data[index]);
    return agrees(`new-${index}`, old + attention + feedForward, tensors.new.data[index], {
      title: `[${index}]`, terms: 100 * sumOfSizes([old, attention, feedForward]),
    });
  };
  const old = tensors.old.data;
  const squares = norm(old) ** 2;
  const rms = Math.sqrt(squares / old.length);
  const divisor = Math.sqrt(squares / old.length + info.epsilon);
  return [
    note("Old + attention update + feed-forward update, coordinate by coordinate:"),
    [0, 1, 2].map(check),
    note("The root of the mean square, by which the copy is divided before attention reads it:"),
    formula(`√(${number(squares)} / ${old.length}) = ${number(rms)}`),
    agrees("root_mean_square", rms, info.root_mean_square),
    note(`With ${number(info.epsilon)} added under the root, so that nothing is ever divided by zero, and each coordinate times a learned weight:`),
    [0, 1, 2].map((index) => [
      formula(`${number(old[index])} / ${number(divisor)} × ${number(tensors.norm_weight.data[index])}`),
      agrees(`normed-${index}`, (old[index] / divisor) * tensors.norm_weight.data[index], tensors.normed.data[index]),
    ]),
    note("Lengths of all five states, from their own numbers:"),
    PARTS.map(([name, title]) => agrees(`${name}_norm`, norm(tensors[name].data), info.vector_norms[name], { title })),
  ];
});
