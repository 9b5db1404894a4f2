/** Stage 17: the state of a position through the layers: old state plus updates, and the norm before each part. */

import { lines } from "../charts.js";
import { number } from "../format.js";
import { agrees, fold, formula, fromViews, heading, keptCharts, norm, note, quantity, sumOfSizes, table, tokenAt } from "../parts.js";
import { label } from "../tokens.js";

export const uses = ["layer", "position"];

export function sentence(context) {
  const { selection, model } = context;
  const token = tokenAt(context, selection.position);
  return `Nothing was overwritten: in layer ${selection.layer} of ${model.n_layers} the update of attention, then that of the feed-forward part, was added to what “${label(token)}” already carried. Before each part a copy was brought to a common size.`;
}

const queries = ({ selection: { layer, position } }) =>
  position !== null && layer !== null && { states: ["residual_norm", { layer, position }] };

const PARTS = [
  ["old", "old state"], ["attention_update", "+ attention update"], ["middle", "= state between"],
  ["feed_forward_update", "+ feed-forward update"], ["new", "= new state"],
];

export function draw(host, context) {
  const charts = keptCharts();
  const life = fromViews(host, context, queries, ({ states: { info, tensors } }, now) => {
    const norms = Array.from(tensors.norms.data);
    const { layer } = now.selection;
    return [
      heading("Length of the state entering each layer; the last point is after the final norm"),
      charts.chart("norms", lines, {
        series: [{ name: "length", values: norms }], x: { title: "layer" }, y: { title: "length" }, selected: layer,
        onPoint: (index) => index < now.model.n_layers && now.select({ layer: index }),
      }),
      fold("norms", "As a table", () => table({
        name: "norms", caption: "Length of the state entering each layer", columns: [{ title: "layer" }, { title: "length", numeric: true }],
        rows: norms.map((size, index) => [index < now.model.n_layers ? String(index) : "after the final norm", quantity(`norm-${index}`, size)]),
      })),
      heading(`Layer ${layer}`),
      table({
        name: "updates", caption: "Old state + updates = new state: lengths and first coordinates",
        columns: [{ title: "state" }, { title: "length", numeric: true }, ...[0, 1, 2, 3].map((index) => ({ title: `[${index}]`, numeric: true }))],
        rows: PARTS.map(([name, title]) => [
          title, quantity(`${name}_norm`, info.vector_norms[name]), ...[0, 1, 2, 3].map((index) => number(tensors[name].data[index], 4)),
        ]),
      }),
      note("Lengths do not add up like numbers: an update can point across the old state, or against it."),
    ];
  });
  return { update: life.update, destroy: () => (charts.destroy(), life.destroy()) };
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ states: { info, tensors } }) => {
    const check = (index) => agrees(
      `new-${index}`, tensors.old.data[index] + tensors.attention_update.data[index] + tensors.feed_forward_update.data[index], tensors.new.data[index],
      { title: `[${index}]`, terms: 100 * sumOfSizes([tensors.old.data[index], tensors.attention_update.data[index], tensors.feed_forward_update.data[index]]) },
    );
    const old = tensors.old.data;
    const squares = old.reduce((total, value) => total + value * value, 0);
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
}
