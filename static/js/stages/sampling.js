/** Stage 21: the filters as a funnel, then the draw. */

import { count, number, percent, plural } from "../format.js";
import { drawLine, funnel, survivors } from "../ledger.js";
import { agrees, check, facts, field, fold, formula, heading, note, quantity, table } from "../parts.js";
import { fromStep, sections } from "../pictures.js";
import { chosenToken } from "../steps.js";
import { chip, label } from "../tokens.js";
import { whatIf } from "../what-if.js";

export const uses = ["step"];

/** Bias and penalties move tokens past each other, so that some not shown may stand between those shown. */
function reordered({ ledger }) {
  return ledger.filters.some(({ name, active }) => active && (name === "logit_bias" || name === "penalties"));
}

/** Where each survivor begins on the line from 0 to 1; null where tokens that are not shown come before it. */
function laidOut(step) {
  const rows = survivors(step);
  const allShown = step.ledger.filters.at(-1).num_survivors === rows.length;
  let end = 0;
  return rows.map((row) => {
    const from = end;
    end += row.final;
    const near = row.id !== step.token || step.rank < step.candidates.length;
    return { ...row, from: allShown || (near && !reordered(step)) ? from : null };
  });
}

export function sentence({ step, report }) {
  if (!step) return `The first token was chosen with seed ${report.data.seed}.`;
  const { filters, draw: drawn, greedy } = step.ledger;
  const [first] = filters;
  const left = filters.at(-1).num_survivors;
  const chosen = `“${label({ text: step.token_text })}”`;
  if (step.given) return `${chosen} was given, not chosen: this answer branches from another one. The model's probabilities for it are real; the sampler would have taken its own choice.`;
  if (greedy) return `At temperature 0 nothing is left to chance: the most probable token, ${chosen}, was taken.`;
  return `The filters left ${plural(left, "token")} of ${count(first.num_survivors)}; then the number ${number(drawn, 4)}, fixed by seed and step, fell on ${chosen}. Settings change variety, not knowledge.`;
}

export function output({ step }) {
  if (!step) return null;
  const { filters, greedy } = step.ledger;
  const left = greedy ? "" : `, one of ${count(filters.at(-1).num_survivors)} that were left`;
  return `“${label({ text: step.token_text })}” (id ${step.token}), rank ${step.rank}${left}`;
}

/** The line on which the draw fell, also as a table; or why there was none. */
function drawing(step) {
  if (step.given) return note("The token came with the request, as the beginning of a branch.");
  if (step.ledger.greedy) return note("Greedy: the filters and the random number play no part.");
  return [
    drawLine(step),
    fold("line", "The line as a table", () => table({
      name: "line", caption: "Probabilities laid end to end, most probable first", columns: ["token", "#from", "#to"],
      rows: laidOut(step).map((row) => ({
        selected: row.id === step.token,
        cells: [chip(row), row.from === null ? "after others" : number(row.from), row.from !== null && number(row.from + row.final)],
      })),
    })),
  ];
}

const chosenStep = fromStep((step, { report }) => [
  facts([
    ["step", String(step.step)],
    ["chosen", chip(chosenToken(step))],
    ["its probability after the filters", step.logprob === null ? null : quantity("probability", Math.exp(step.logprob), percent)],
    ["its rank before them (0 is the likeliest)", field(step, "rank", String)],
    ["seed", report ? field(report.data, "seed", String) : null],
  ]),
  funnel(step.ledger),
  heading(step.ledger.greedy || step.given ? "No draw" : "The draw"),
  drawing(step),
]);

export const draw = sections({ step: chosenStep, "what-if": whatIf });

export const arithmetic = fromStep((step) => {
  const { filters, draw: drawn, greedy } = step.ledger;
  const rows = laidOut(step);
  const chosen = rows.find(({ id }) => id === step.token);
  const temperature = filters.find(({ name }) => name === "temperature").value;
  const [first, second] = rows;
  return [
    chosen && step.logprob !== null && [
      note("The log-probability is the natural logarithm of the chosen token's share after the filters:"),
      agrees("logprob", Math.log(chosen.final), step.logprob),
    ],
    !greedy && !reordered(step) && second && [
      note("Filters remove tokens but keep the proportions of those that stay; only temperature changes them:"),
      formula(`${label(second)} : ${label(first)} = exp((${number(second.logit)} − ${number(first.logit)}) / ${number(temperature)})`),
      agrees("proportion", Math.exp((second.logit - first.logit) / temperature), second.final / first.final),
    ],
    !greedy && !step.given && chosen && chosen.from !== null && [
      note("The draw must fall on the chosen token's stretch of the line:"),
      check("draw", falls(chosen, drawn), `${number(chosen.from)} ≤ ${number(drawn)} < ${number(chosen.from + chosen.final)}`, "it does", "it does not"),
    ],
  ];
});

function falls({ from, final }, drawn) {
  return from - 1e-6 <= drawn && drawn < from + final + 1e-6;
}
