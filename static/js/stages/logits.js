/** Stage 19: one score per token of the vocabulary, and what each layer would have said. */

import { lines } from "../charts.js";
import { count, number, percent, short } from "../format.js";
import { agrees, facts, fold, fromViews, heading, keptCharts, note, quantity, signedBar, table } from "../parts.js";
import { chip, named } from "../tokens.js";

export const uses = ["step"];

export function sentence({ model, selection }) {
  return `The last position's ${count(model.width)} numbers were compared with all ${count(model.vocabulary)} rows of the vocabulary: one score, a logit, for each token that could come next at step ${selection.step ?? 0}. A logit alone is not a probability.`;
}

const queries = ({ selection: { step } }) => step !== null && { all: ["logits", { step, top: 10 }] };

export function draw(host, context) {
  const charts = keptCharts();
  const life = fromViews(host, context, queries, ({ all: { info, tensors } }, now) => {
    const most = Math.max(Math.abs(info.minimum), Math.abs(info.maximum)) || 1;
    const side = (name, caption) => table({
      name, caption, columns: [{ title: "token" }, { title: "id", numeric: true }, { title: "logit" }],
      rows: info[`${name}_ids`].map((id, index) => ({
        selected: id === now.step?.token,
        cells: [chip(named(id, info.token_texts)), count(id), signedBar(tensors[name].data[index] / most, quantity(`logit-${id}`, tensors[name].data[index]))],
      })),
    });
    const lens = tensors.lens_rank;
    return [
      facts([
        ["smallest", quantity("minimum", info.minimum)],
        ["mean", quantity("mean", info.mean)],
        ["spread (standard deviation)", quantity("std", info.std)],
        ["largest", quantity("maximum", info.maximum)],
      ]),
      side("top", `The highest logits; bars run from ${number(-most, 3)} to ${number(most, 3)}`),
      fold("bottom", "The lowest logits", () => side("bottom", "The lowest logits")),
      lens && [
        heading("What each layer would have said"),
        note("The logit lens: the state entering each layer, sent straight through the last norm and the vocabulary. It is a way of looking, not something the model does."),
        charts.chart("lens", lines, {
          series: [{ name: "probability of the chosen token", values: Array.from(tensors.lens_probability.data) }],
          x: { title: "layer" }, y: { title: "probability" },
        }),
        table({
          name: "lens", caption: "Layer by layer",
          columns: [{ title: "layer" }, { title: "best token" }, { title: "its probability", numeric: true }, { title: "chosen token's probability", numeric: true }, { title: "its rank", numeric: true }],
          rows: info.lens_ids.map((id, layer) => [
            layer < now.model.n_layers ? String(layer) : "after the last", chip(named(id, info.token_texts)),
            percent(tensors.lens_top.data[layer]), quantity(`lens-${layer}`, tensors.lens_probability.data[layer], percent),
            quantity(`lens-rank-${layer}`, tensors.lens_rank.data[layer], count),
          ]),
        }),
      ],
    ];
  });
  return { update: life.update, destroy: () => (charts.destroy(), life.destroy()) };
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ all: { info, tensors } }, { step }) => {
    const row = step?.candidates.find(([id]) => id === info.top_ids[0]);
    return [
      note("The largest logit of the whole vocabulary is the first of the list:"),
      agrees("maximum", Math.max(...tensors.top.data), info.maximum),
      row && [
        note("The same logit as the sampler saw it when the token was chosen:"),
        agrees("sampler-logit", tensors.top.data[0], row[2]),
      ],
      note(`In units of the spread, the best token stands ${short((info.maximum - info.mean) / info.std)} above the mean.`),
    ];
  });
}
