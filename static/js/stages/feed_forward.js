/** Stage 18: the feed-forward part: gate, up, their product, and the strongest neurons. */

import { ablation } from "../ablation.js";
import { activations } from "../arithmetic.js";
import { strip } from "../charts.js";
import { count, number, percent, shape } from "../format.js";
import { agrees, ends, facts, field, fold, formula, norm, note, quantity, signedBar, table } from "../parts.js";
import { fromView, sections } from "../pictures.js";
import { label } from "../tokens.js";

export const uses = ["layer", "position"];

export function sentence({ model, token }) {
  return `Now each position worked alone: ${count(model.width)} numbers of “${label(token)}” were spread over ${count(model.feed_forward_width)} neurons, bent by a function that is not a straight line, and brought back to ${count(model.width)}.`;
}

const strongest = () => ({ top: 20 });

const neurons = fromView("feed_forward", uses, ({ info, tensors: { neurons: indices, gate, up, activation, output } }) => {
  const most = Math.abs(activation.data[0]) || 1;
  return [
    facts([
      ["neurons", field(info, "num_neurons", count)],
      ["with an open gate", [field(info, "num_positive_gates", count), ` (${percent(info.num_positive_gates / info.num_neurons)})`]],
      ["length of all activations", field(info, "activation_norm")],
      ["length of the update", field(info, "output_norm")],
      ["matrices", ["gate", "up", "down"].map((name) => `${name} ${shape(info.weight_shapes[name])}`).join(", ")],
    ]),
    table({
      name: "neurons", caption: `The ${indices.data.length} strongest neurons; ${ends(most)}`,
      columns: ["neuron", "#gate", "#up", `${info.activation}(gate) × up`],
      rows: Array.from(indices.data, (neuron, index) => [
        String(neuron), number(gate.data[index]), number(up.data[index]),
        signedBar(activation.data[index] / most, quantity(`neuron-${neuron}`, activation.data[index])),
      ]),
    }),
    strip(output.data, { name: `the update: all activations through the down matrix${info.post_norm ? ", brought to a common size" : ""}` }),
  ];
}, strongest);

export const draw = sections({ neurons, ablation: ablation(["feed_forward", "layer"]) });

const FORMULAS = { silu: "silu(x) = x / (1 + exp(−x))", gelu_tanh: "gelu_tanh(x) = x / 2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))" };
const BFLOAT16 = 2 ** -7; // three roundings to eight binary digits

export const arithmetic = fromView("feed_forward", uses, ({ info, tensors }) => {
  const exact = info.exactness.kernel === "float32";
  const check = (index) => {
    const gate = tensors.gate.data[index];
    const up = tensors.up.data[index];
    const neuron = tensors.neurons.data[index];
    return [
      formula(`neuron ${neuron}: ${info.activation}(${number(gate)}) × ${number(up)}`),
      agrees(`neuron-${neuron}`, activations[info.activation](gate) * up, tensors.activation.data[index], exact ? {} : { tolerance: BFLOAT16 }),
    ];
  };
  const indices = Array.from(tensors.neurons.data.keys());
  return [
    note(`${FORMULAS[info.activation]}: nearly x where x is large, nearly 0 where it is far below zero.`),
    !exact && note(`The ${info.exactness.kernel} kernel keeps these numbers to eight binary digits (bfloat16), so agreement here means to within ${percent(BFLOAT16)}.`),
    indices.slice(0, 3).map(check),
    fold("other-neurons", "The other strongest neurons", () => indices.slice(3).map(check)),
    note("The length of the update, from its own numbers:"),
    agrees("output_norm", norm(tensors.output.data), info.output_norm),
  ];
}, strongest);
