/** Stage 21: the filters as a funnel, then the draw. */

import { element } from "../dom.js";
import { count, number, percent, plural } from "../format.js";
import { agrees, bar, facts, fold, formula, fromContext, heading, note, quantity, sum, table } from "../parts.js";
import { chip, label, named } from "../tokens.js";

export const uses = ["step"];

const NAMES = {
  logit_bias: "logit bias", penalties: "penalties", temperature: "temperature", top_k: "top-k", top_p: "top-p", min_p: "min-p",
};

/** The rows in the order the draw lays them out: most probable after the filters first. */
function survivors(step) {
  return step.candidates
    .map(([id, text, logit, raw, final]) => ({ id, text, logit, raw, final }))
    .filter(({ final }) => final > 0)
    .sort((a, b) => b.final - a.final);
}

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
  const { filters, draw, greedy } = step.ledger;
  const [first] = filters;
  const left = filters.at(-1).num_survivors;
  const chosen = `“${label({ text: step.token_text })}”`;
  if (greedy) return `At temperature 0 nothing is left to chance: the most probable token, ${chosen}, was taken.`;
  return `The filters left ${plural(left, "token")} of ${count(first.num_survivors)}; then the number ${number(draw, 4)}, fixed by seed and step, fell on ${chosen}. Settings change variety, not knowledge.`;
}

function setting({ name, value }) {
  if (name === "logit_bias") return Object.keys(value).length === 0 ? "none" : plural(Object.keys(value).length, "token");
  if (name === "penalties") return Object.entries(value).map(([kind, size]) => `${kind} ${number(size)}`).join(", ");
  return number(value);
}

export function output({ step }) {
  if (!step) return null;
  const { filters, greedy } = step.ledger;
  const left = greedy ? "" : `, one of ${count(filters.at(-1).num_survivors)} that were left`;
  return `“${label({ text: step.token_text })}” (id ${step.token}), rank ${step.rank}${left}`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ step }) => [step], ({ step, selection, report }) => {
    if (!step) return note("The first step's numbers come with its token.");
    const { filters, draw: drawn, greedy } = step.ledger;
    const vocabulary = filters[0].num_survivors;
    const rows = laidOut(step);
    const rest = 1 - sum(rows.map(({ final }) => final));
    return [
      facts([
        ["step", String(selection.step)],
        ["chosen", chip(named(step.token, { [step.token]: step.token_text }))],
        ["its probability after the filters", step.logprob === null ? null : quantity("probability", Math.exp(step.logprob), percent)],
        ["its rank before them (0 is the likeliest)", quantity("rank", step.rank, String)],
        ["seed", report ? quantity("seed", report.data.seed, String) : null],
      ]),
      table({
        name: "funnel", caption: "Filter by filter; the bar's length is the logarithm of the survivors",
        columns: [{ title: "filter" }, { title: "setting" }, { title: "survivors" }, { title: "mass removed", numeric: true }],
        rows: filters.map((filter) => ({
          class: filter.active ? "" : "row-muted",
          cells: [
            `${NAMES[filter.name] ?? filter.name}${filter.active ? "" : " (off)"}`, setting(filter),
            bar(Math.log(filter.num_survivors + 1) / Math.log(vocabulary + 1), quantity(`survivors-${filter.name}`, filter.num_survivors, count), "final"),
            quantity(`removed-${filter.name}`, filter.removed_mass, percent),
          ],
        })),
      }),
      heading(greedy ? "No draw" : "The draw"),
      greedy
        ? note("Greedy: the filters and the random number play no part.")
        : [
          element(
            "div", { class: "draw-line", role: "img", "aria-label": `The survivors' probabilities laid end to end from 0 to 1; the draw is ${number(drawn)}` },
            rows.map(({ id, text, final }) =>
              element("span", { class: `draw-part${id === step.token ? " draw-chosen" : ""}`, vars: { share: final }, title: `${label({ text })}: ${percent(final)}` },
                final > 0.04 ? label({ text }) : "")),
            rest > 1e-9 && element("span", { class: "draw-part draw-rest", vars: { share: rest }, title: `survivors not shown: ${percent(rest)}` }),
            element("span", { class: "draw-needle", vars: { at: drawn }, "aria-hidden": "true" }),
          ),
          element("p", { class: "draw-said" }, "draw = ", quantity("draw", drawn), ", between 0 and 1"),
          fold("line", "The line as a table", () => table({
            name: "line", caption: "Probabilities laid end to end, most probable first",
            columns: [{ title: "token" }, { title: "from", numeric: true }, { title: "to", numeric: true }],
            rows: rows.map((row) => ({
              selected: row.id === step.token,
              cells: [
                chip(named(row.id, { [row.id]: row.text })), row.from === null ? "after others" : number(row.from),
                row.from === null ? "" : number(row.from + row.final),
              ],
            })),
          })),
        ],
      note("The order here is bias, penalties, temperature, top-k, top-p, min-p; other programs apply temperature last. Seed and step alone fix the draw, whoever else is being served."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ step }) => [step], ({ step }) => {
    if (!step) return note("Nothing to recompute yet.");
    const { filters, draw: drawn, greedy } = step.ledger;
    const rows = laidOut(step);
    const chosen = rows.find(({ id }) => id === step.token);
    const temperature = filters.find(({ name }) => name === "temperature").value;
    const [best, second] = rows;
    return [
      chosen && step.logprob !== null && [
        note("The log-probability is the natural logarithm of the chosen token's share after the filters:"),
        agrees("logprob", Math.log(chosen.final), step.logprob),
      ],
      !greedy && !reordered(step) && second && [
        note("Filters remove tokens but keep the proportions of those that stay; only temperature changes them:"),
        formula(`${label(second)} : ${label(best)} = exp((${number(second.logit)} − ${number(best.logit)}) / ${number(temperature)})`),
        agrees("proportion", Math.exp((second.logit - best.logit) / temperature), second.final / best.final),
      ],
      !greedy && chosen && chosen.from !== null && [
        note("The draw must fall on the chosen token's stretch of the line:"),
        element(
          "p", { class: `check ${falls(chosen, drawn) ? "check-good" : "check-bad"}`, "data-check": "draw", "data-agrees": String(falls(chosen, drawn)) },
          `${number(chosen.from)} ≤ ${number(drawn)} < ${number(chosen.from + chosen.final)}`,
          element("strong", {}, falls(chosen, drawn) ? " ✓ it does" : " ✗ it does not"),
        ),
      ],
    ];
  });
}

function falls({ from, final }, drawn) {
  return from - 1e-6 <= drawn && drawn < from + final + 1e-6;
}
