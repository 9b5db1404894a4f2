/** Stage 20: the exact softmax of the chosen step, before and after the filters. */

import { element } from "../dom.js";
import { number, percent, short } from "../format.js";
import { agrees, bar, facts, fold, formula, fromContext, heading, note, quantity, sum, sumOfSizes, table } from "../parts.js";
import { candidates } from "../steps.js";
import { chip, label, named } from "../tokens.js";

export const uses = ["step"];

/** What the shares leave of 1; what is left by rounding alone is nothing. */
function beyond(shares) {
  const left = 1 - sum(shares);
  return left < 1e-9 ? 0 : left;
}

export function sentence({ step, report, model }) {
  if (!step) return `The logits became probabilities that add up to one; the entropy is ${short(report.data.entropy_nats)} nats.`;
  const [best] = candidates(step);
  const chosen = best.id === step.token ? "and it was chosen" : `yet “${label({ text: step.token_text })}” was chosen`;
  const size = model ? `${number(model.vocabulary)} tokens` : "all tokens";
  return `Of ${size}, “${label(best)}” was the likeliest next one with ${percent(best.raw)}, ${chosen}. Likely means “tends to follow”, not “true”.`;
}

export function output({ step }) {
  if (!step) return null;
  const [best] = candidates(step);
  return `“${label(best)}” has ${percent(best.raw)}; entropy ${short(step.entropy)} nats`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ step }) => [step], ({ step, selection }) => {
    if (!step) return note("The first step's numbers come with its token.");
    const rows = candidates(step);
    const most = Math.max(...rows.map(({ raw, final }) => Math.max(raw, final)));
    const others = beyond(rows.map(({ raw }) => raw));
    const otherFinal = beyond(rows.map(({ final }) => final));
    return [
      facts([
        ["step", String(selection.step)],
        ["entropy", [quantity("entropy", step.entropy), " nats"]],
        ["as many choices as", [quantity("perplexity", Math.exp(step.entropy), short), " equally likely tokens"]],
        ["rank of the chosen token (0 is the likeliest)", quantity("rank", step.rank, String)],
      ]),
      element("div", { class: "probability-chart" }, table({
        name: "candidates", caption: `The most probable tokens at step ${selection.step}; bars run from 0 to ${percent(most)}`,
        columns: [
          { title: "token" }, { title: "logit", numeric: true }, { title: "softmax of all logits" },
          { title: "after all filters" },
        ],
        rows: [
          ...rows.map(({ id, text, logit, raw, final }) => ({
            selected: id === step.token,
            class: final === 0 ? "row-muted" : "",
            cells: [
              chip(named(id, { [id]: text }), { selected: id === step.token }), quantity(`logit-${id}`, logit),
              bar(raw / most, quantity(`raw-${id}`, raw, percent)), bar(final / most, quantity(`probability-${id}`, final, percent), "final"),
            ],
          })),
          {
            class: "row-rest",
            cells: ["all others", "", bar(others / most, quantity("raw-others", others, percent)), bar(otherFinal / most, quantity("probability-others", otherFinal, percent), "final")],
          },
        ],
      })),
      note("The softmax runs over the whole vocabulary. A row whose second bar is empty was removed by a filter; what it had went to the tokens that stayed."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ step }) => [step], ({ step }) => {
    if (!step) return note("Nothing to recompute yet.");
    const rows = candidates(step);
    const [best] = rows;
    return [
      note("Softmax divides each token's exponential by the sum over the whole vocabulary. That sum follows from the best token, and must then give every other probability:"),
      formula(`total = exp(logit − ${number(best.logit)}) summed over all tokens = 1 / ${number(best.raw)} = ${number(1 / best.raw)}`),
      rows.slice(1, 4).map((row) => [
        formula(`${label(row)}: exp(${number(row.logit)} − ${number(best.logit)}) / ${number(1 / best.raw)}`),
        agrees(`raw-${row.id}`, Math.exp(row.logit - best.logit) * best.raw, row.raw),
      ]),
      fold("other-rows", "The other rows", () => rows.slice(4).map((row) =>
        agrees(`raw-${row.id}`, Math.exp(row.logit - best.logit) * best.raw, row.raw))),
      heading("The chosen token's log-probability"),
      agrees("raw_logprob", Math.log(rows.find(({ id }) => id === step.token).raw), step.raw_logprob),
      note(`All probabilities must add up to 1: shown ${percent(sumOfSizes(rows.map(({ raw }) => raw)))}, the rest belongs to tokens not shown.`),
    ];
  });
}
