/** Stage 18: the feed-forward part: gate, up, their product, and the strongest neurons. */

import { strip } from "../charts.js";
import { element } from "../dom.js";
import { count, number, percent } from "../format.js";
import { agrees, facts, fold, fromViews, note, quantity, signedBar, table, tokenAt } from "../parts.js";
import { label } from "../tokens.js";

export const uses = ["layer", "position"];

export function sentence(context) {
  const { selection, model } = context;
  const token = tokenAt(context, selection.position);
  return `Now each position worked alone: ${count(model.width)} numbers of “${label(token)}” were spread over ${count(model.feed_forward_width)} neurons, bent by a function that is not a straight line, and brought back to ${count(model.width)}.`;
}

const queries = ({ selection: { layer, position } }) =>
  position !== null && layer !== null && { neurons: ["feed_forward", { layer, position, top: 20 }] };

export function draw(host, context) {
  return fromViews(host, context, queries, ({ neurons: { info, tensors } }) => {
    const { gate, up, product } = tensors;
    const most = Math.abs(product.data[info.strongest[0]]) || 1;
    const active = product.data.reduce((total, value) => total + (Math.abs(value) > most / 100 ? 1 : 0), 0);
    return [
      facts([
        ["neurons", quantity("neurons", product.data.length, count)],
        ["above a hundredth of the strongest", [quantity("active", active, count), ` (${percent(active / product.data.length)})`]],
        ["length of the update", quantity("down_norm", info.down_norm)],
      ]),
      table({
        name: "neurons", caption: `The strongest neurons; bars run from ${number(-most, 3)} to ${number(most, 3)}`,
        columns: [{ title: "neuron" }, { title: "gate", numeric: true }, { title: "up", numeric: true }, { title: "silu(gate) × up" }],
        rows: info.strongest.map((neuron) => [
          String(neuron), number(gate.data[neuron]), number(up.data[neuron]),
          signedBar(product.data[neuron] / most, quantity(`neuron-${neuron}`, product.data[neuron])),
        ]),
      }),
      strip(product.data, { name: "all neurons, 64 a line" }),
      note("A neuron has no name. Each answers to many unrelated things, and what it writes is read together with all others."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ neurons: { info, tensors } }) => {
    const check = (neuron) => {
      const gate = tensors.gate.data[neuron];
      const up = tensors.up.data[neuron];
      return [
        element("p", { class: "formula" }, `neuron ${neuron}: ${number(gate)} / (1 + exp(−(${number(gate)}))) × ${number(up)}`),
        agrees(`neuron-${neuron}`, (gate / (1 + Math.exp(-gate))) * up, tensors.product.data[neuron]),
      ];
    };
    return [
      note("silu(x) = x / (1 + exp(−x)): nearly x where x is large, nearly 0 where it is far below zero."),
      info.strongest.slice(0, 3).map(check),
      fold("other-neurons", "The other strongest neurons", () => info.strongest.slice(3).map(check)),
    ];
  });
}
