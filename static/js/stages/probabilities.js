/** Stage 20: the exact softmax of the chosen step, before and after the filters. */

import { element } from "../dom.js";
import { number, percent, short } from "../format.js";
import { agrees, bar, facts, field, fold, formula, heading, note, quantity, sum, table } from "../parts.js";
import { fromStep } from "../pictures.js";
import { best, candidates } from "../steps.js";
import { chip, label } from "../tokens.js";

export const uses = ["step"];

/** What the shares leave of 1; what is left by rounding alone is nothing. */
function beyond(shares) {
  const left = 1 - sum(shares);
  return left < 1e-9 ? 0 : left;
}

export function sentence({ step, report, model }) {
  if (!step) return `The logits became probabilities that add up to one; the entropy is ${short(report.data.entropy_nats)} nats.`;
  const likeliest = best(step, "raw");
  const chosen = likeliest.id === step.token ? "and it was chosen" : `yet “${label({ text: step.token_text })}” was chosen`;
  const size = model ? `${number(model.vocabulary)} tokens` : "all tokens";
  return `Of ${size}, “${label(likeliest)}” was the likeliest next one with ${percent(likeliest.raw)}, ${chosen}. Likely means “tends to follow”, not “true”.`;
}

export function output({ step }) {
  if (!step) return null;
  const likeliest = best(step, "raw");
  return `“${label(likeliest)}” has ${percent(likeliest.raw)}; entropy ${short(step.entropy)} nats`;
}

export const draw = fromStep((step) => {
  const rows = candidates(step);
  const most = Math.max(...rows.flatMap(({ raw, final }) => [raw, final]));
  const bars = (name, raw, final) => [
    bar(raw / most, quantity(`raw-${name}`, raw, percent)), bar(final / most, quantity(`probability-${name}`, final, percent), "final"),
  ];
  return [
    facts([
      ["step", String(step.step)],
      ["entropy", [field(step, "entropy"), " nats"]],
      ["as many choices as", [quantity("perplexity", Math.exp(step.entropy), short), " equally likely tokens"]],
      ["rank of the chosen token (0 is the likeliest)", field(step, "rank", String)],
    ]),
    element("div", { class: "probability-chart" }, table({
      name: "candidates", caption: `The most probable tokens at step ${step.step}; bars run from 0 to ${percent(most)}`,
      columns: ["token", "#logit", "softmax of all logits", "after all filters"],
      rows: [
        ...rows.map((row) => ({
          selected: row.id === step.token,
          class: row.final === 0 ? "row-muted" : "",
          cells: [chip(row, { selected: row.id === step.token }), quantity(`logit-${row.id}`, row.logit), ...bars(row.id, row.raw, row.final)],
        })),
        {
          class: "row-rest",
          cells: ["all others", "", ...bars("others", beyond(rows.map(({ raw }) => raw)), beyond(rows.map(({ final }) => final)))],
        },
      ],
    })),
  ];
});

export const arithmetic = fromStep((step) => {
  const [first, ...others] = candidates(step);
  const check = (row) => agrees(`raw-${row.id}`, Math.exp(row.logit - first.logit) * first.raw, row.raw);
  return [
    note("Softmax divides each token's exponential by the sum over the whole vocabulary. That sum follows from the best token, and must then give every other probability:"),
    formula(`total = exp(logit − ${number(first.logit)}) summed over all tokens = 1 / ${number(first.raw)} = ${number(1 / first.raw)}`),
    others.slice(0, 3).map((row) => [
      formula(`${label(row)}: exp(${number(row.logit)} − ${number(first.logit)}) / ${number(1 / first.raw)}`), check(row),
    ]),
    fold("other-rows", "The other rows", () => others.slice(3).map(check)),
    heading("The chosen token's log-probability"),
    agrees("raw_logprob", Math.log([first, ...others].find(({ id }) => id === step.token).raw), step.raw_logprob),
    note(`All probabilities must add up to 1: shown ${percent(sum([first, ...others].map(({ raw }) => raw)))}, the rest belongs to tokens not shown.`),
  ];
});
