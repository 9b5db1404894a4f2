/** Stage 19: one score per token of the vocabulary, and what each layer would have said. */

import { largestSize } from "../arithmetic.js";
import { attribution } from "../attribution.js";
import { lines } from "../charts.js";
import { count, percent, short } from "../format.js";
import { agrees, ends, facts, field, fold, heading, note, quantity, signedBar, table } from "../parts.js";
import { fromView, sections } from "../pictures.js";
import { best } from "../steps.js";
import { chip, label, named } from "../tokens.js";

export const uses = ["step"];

export function sentence({ model, selection }) {
  return `The last position's ${count(model.width)} numbers were compared with all ${count(model.vocabulary)} rows of the vocabulary: one score, a logit, for each token that could come next at step ${selection.step ?? 0}. A logit alone is not a probability.`;
}

export function output({ step, model }) {
  if (!step) return null;
  const largest = best(step, "logit");
  return `${count(model.vocabulary)} logits; the largest, ${short(largest.logit)}, for “${label(largest)}”`;
}

const tops = () => ({ top: 10 });

const all = fromView("logits", uses, ({ info, tensors }) => {
  const most = largestSize([info.minimum, info.maximum]);
  const side = (name, caption) => table({
    name, caption, columns: ["token", "#id", "logit"],
    rows: info[`${name}_ids`].map((id, index) => {
      const logit = tensors[`${name}_logits`].data[index];
      return {
        selected: id === info.token,
        cells: [chip(named(id, info.token_texts)), String(id), signedBar(logit / most, quantity(`logit-${id}`, logit))],
      };
    }),
  });
  return [
    facts([
      ["chosen token", chip(named(info.token, info.token_texts))],
      ["its logit", field(info, "token_logit")],
      ["its rank (0 is the highest)", field(info, "token_rank", count)],
      ["smallest", field(info, "minimum")],
      ["mean", field(info, "mean")],
      ["spread (standard deviation)", field(info, "std")],
      ["largest", field(info, "maximum")],
    ]),
    side("top", `The highest of ${count(info.vocabulary)} logits; ${ends(most)}`),
    fold("bottom", "The lowest logits", () => side("bottom", "The lowest logits")),
  ];
}, tops);

const lens = fromView("lens", uses, ({ info, tensors }, { model }, chart) => [
  heading("What each layer would have said"),
  note("The logit lens: the state entering each layer, sent straight through the last norm and the vocabulary. It is a way of looking, not something the model does."),
  chart("lens", lines, {
    series: [{ name: "probability of the chosen token", values: tensors.probability.data }],
    x: { title: "layer" }, y: { title: "probability" },
  }),
  table({
    name: "lens", caption: "Layer by layer; the last row is the model's real output",
    columns: ["state", "best token", "#its probability", "#chosen token's probability", "#its rank"],
    rows: info.top_ids.map(([id], layer) => ({
      selected: id === info.token,
      cells: [
        layer < model.n_layers ? `entering layer ${layer}` : "leaving the last layer", chip(named(id, info.token_texts)),
        percent(tensors.top_probabilities.data[layer]), quantity(`lens-${layer}`, tensors.probability.data[layer], percent),
        quantity(`lens-rank-${layer}`, tensors.rank.data[layer], count),
      ],
    })),
  }),
], () => ({ top: 1 }));

export const draw = sections({ all, lens, attribution });

export const arithmetic = fromView("logits", uses, ({ info, tensors }, { step }) => {
  const seen = step?.candidates.find(([id]) => id === info.top_ids[0]);
  return [
    note("The largest logit of the whole vocabulary is the first of the list:"),
    agrees("maximum", Math.max(...tensors.top_logits.data), info.maximum),
    seen && [
      note("The same logit as the sampler saw it when the token was chosen:"),
      agrees("sampler-logit", tensors.top_logits.data[0], seen[2]),
    ],
    note(`In units of the spread, the best token stands ${short((info.maximum - info.mean) / info.std)} above the mean.`),
  ];
}, tops);
