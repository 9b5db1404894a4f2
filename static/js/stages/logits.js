/** Stage 19: one score per token of the vocabulary, and what each layer would have said. */

import { attribution } from "../attribution.js";
import { lines } from "../charts.js";
import { count, number, percent, short } from "../format.js";
import { agrees, facts, fold, fromViews, heading, keptCharts, note, quantity, sections, signedBar, table } from "../parts.js";
import { chip, label, named } from "../tokens.js";

export const uses = ["step"];

export function sentence({ model, selection }) {
  return `The last position's ${count(model.width)} numbers were compared with all ${count(model.vocabulary)} rows of the vocabulary: one score, a logit, for each token that could come next at step ${selection.step ?? 0}. A logit alone is not a probability.`;
}

export function output({ step, model }) {
  if (!step) return null;
  const [, text, logit] = step.candidates.reduce((best, one) => (one[2] > best[2] ? one : best));
  return `${count(model.vocabulary)} logits; the largest, ${short(logit)}, for “${label({ text })}”`;
}

const queries = ({ selection: { step } }) => step !== null && { all: ["logits", { step, top: 10 }] };
const lensQueries = ({ selection: { step } }) => step !== null && { lens: ["lens", { step, top: 1 }] };

export function draw(host, context) {
  return sections(host, context, { all: drawLogits, lens: drawLens, attribution });
}

function drawLogits(host, context) {
  return fromViews(host, context, queries, ({ all: { info, tensors } }) => {
    const most = Math.max(Math.abs(info.minimum), Math.abs(info.maximum)) || 1;
    const side = (name, caption) => table({
      name, caption, columns: [{ title: "token" }, { title: "id", numeric: true }, { title: "logit" }],
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
        ["its logit", quantity("token_logit", info.token_logit)],
        ["its rank (0 is the highest)", quantity("token_rank", info.token_rank, count)],
        ["smallest", quantity("minimum", info.minimum)],
        ["mean", quantity("mean", info.mean)],
        ["spread (standard deviation)", quantity("std", info.std)],
        ["largest", quantity("maximum", info.maximum)],
      ]),
      side("top", `The highest of ${count(info.vocabulary)} logits; bars run from ${number(-most, 3)} to ${number(most, 3)}`),
      fold("bottom", "The lowest logits", () => side("bottom", "The lowest logits")),
    ];
  });
}

function drawLens(host, context) {
  const charts = keptCharts();
  const life = fromViews(host, context, lensQueries, ({ lens: { info, tensors } }, now) => [
    heading("What each layer would have said"),
    note("The logit lens: the state entering each layer, sent straight through the last norm and the vocabulary. It is a way of looking, not something the model does."),
    charts.chart("lens", lines, {
      series: [{ name: "probability of the chosen token", values: tensors.probability.data }],
      x: { title: "layer" }, y: { title: "probability" },
    }),
    table({
      name: "lens", caption: "Layer by layer; the last row is the model's real output",
      columns: [
        { title: "state" }, { title: "best token" }, { title: "its probability", numeric: true },
        { title: "chosen token's probability", numeric: true }, { title: "its rank", numeric: true },
      ],
      rows: info.top_ids.map(([id], layer) => ({
        selected: id === info.token,
        cells: [
          layer < now.model.n_layers ? `entering layer ${layer}` : "leaving the last layer", chip(named(id, info.token_texts)),
          percent(tensors.top_probabilities.data[layer]), quantity(`lens-${layer}`, tensors.probability.data[layer], percent),
          quantity(`lens-rank-${layer}`, tensors.rank.data[layer], count),
        ],
      })),
    }),
  ]);
  return { update: life.update, destroy: () => (charts.destroy(), life.destroy()) };
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ all: { info, tensors } }, { step }) => {
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
  });
}
