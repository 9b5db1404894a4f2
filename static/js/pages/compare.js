/** Two answers of a conversation beside each other, step by step: where they part, and how probable each token was. */

import { element } from "../dom.js";
import { count, percent, plural } from "../format.js";
import { bar, facts, fromContext, heading, note, quantity, sum, table } from "../parts.js";
import { isActive } from "../record.js";
import { loadJourney } from "../responses.js";
import { aroundStep } from "../steps.js";
import { chip, label, named } from "../tokens.js";

const WORDS = 60; // characters of an answer in the list to choose from

export function draw(host, context) {
  let latest = context;
  const life = fromContext(host, context, depends, nodes);
  load();

  /** The other answer's journey is read when it is first looked at. */
  async function load() {
    const other = otherOf(latest);
    if (other === null || other.last > 0) return;
    await loadJourney(other);
    life.update(latest);
  }
  return {
    update(next) {
      latest = next;
      life.update(next);
      load();
    },
    destroy: life.destroy,
  };
}

function depends(context) {
  return [context.response?.version, otherOf(context)?.version, otherOf(context), context.chosenStep, context.answers.length];
}

/** The answers that can stand beside the one in view: [{record, parent}]. */
function choices({ response, answers }) {
  return answers.filter(({ record }) => record !== response && record.id !== null && !isActive(record));
}

/** The chosen one, else another version of the answer in view, else the newest. */
function otherOf(context) {
  const others = choices(context);
  const parent = context.answers.find(({ record }) => record === context.response)?.parent;
  const found = others.find(({ record }) => record.id === context.against) ?? others.findLast((one) => one.parent === parent) ?? others.at(-1);
  return found?.record ?? null;
}

function nodes(context) {
  const { response: one } = context;
  const other = otherOf(context);
  if (one === null || other === null) return note("There is only one answer here. Ask for it again, or click a token under it and go on with another one: then both can be compared.");
  const picker = choosing(context, other);
  if (one.steps.length === 0 || other.steps.length === 0) return [picker, note("One of the two has no tokens to compare, or they are still being read.")];
  const parting = partingOf(one.steps, other.steps);
  const step = Math.min(context.chosenStep ?? parting ?? 0, Math.max(one.steps.length, other.steps.length) - 1);
  return [
    picker,
    element("p", { class: "stage-sentence" }, verdict(one, other, parting)),
    facts([
      ["tokens in common", quantity("common", parting ?? Math.min(one.steps.length, other.steps.length), count)],
      ["mean probability of a token, A", quantity("mean-a", meanProbability(one.steps), percent)],
      ["mean probability of a token, B", quantity("mean-b", meanProbability(other.steps), percent)],
    ]),
    heading(`Step ${step}: the same candidates in both`),
    candidatesTable(one.steps[step], other.steps[step]),
    heading("Step by step"),
    stepsTable(context, one.steps, other.steps, step, parting),
    note("Each percentage is the model's own, over the whole vocabulary and before any filter. From the step where two answers part, they read different texts: equal numbers of a step then compare different questions."),
  ];
}

function choosing(context, other) {
  const select = element(
    "select", { "data-focus": "against", onchange: ({ target }) => context.select({ against: target.value }) },
    choices(context).map(({ record }, index) =>
      element("option", { value: record.id, selected: record === other }, `${index + 1}: ${record.text.slice(0, WORDS) || record.status}`)),
  );
  return element("label", {}, "A is the answer that is looked into; B is ", select);
}

/** The first step at which they hold different tokens, or at which one has ended; null when they are the same. */
function partingOf(one, other) {
  const step = one.findIndex(({ token }, index) => token !== other[index]?.token);
  if (step !== -1) return step;
  return other.length > one.length ? one.length : null;
}

function verdict(one, other, parting) {
  const prompts = samePrompt(one, other) ? "Both read the same prompt" : `They read different prompts (${plural(one.numPromptTokens, "token")} and ${count(other.numPromptTokens)})`;
  if (parting === null) return `${prompts} and are the same in all ${plural(one.steps.length, "token")}.`;
  const [a, b] = [one.steps[parting], other.steps[parting]];
  const words = (step) => (step ? `“${label({ text: step.token_text })}” (${percent(Math.exp(step.raw_logprob))}${step.given ? ", given" : ""})` : "nothing more");
  return `${prompts}. They part at step ${parting}: A has ${words(a)}, B has ${words(b)}.`;
}

function samePrompt(one, other) {
  const ids = ({ tokens }) => tokens.filter(({ source }) => source !== "answer").map(({ id }) => id).join();
  return one.numPromptTokens === other.numPromptTokens && ids(one) === ids(other);
}

/** The geometric mean: the number which, taken once for every token, multiplies to the probability of the whole answer. */
function meanProbability(steps) {
  return Math.exp(sum(steps.map(({ raw_logprob: logprob }) => logprob ?? 0)) / steps.length);
}

function candidatesTable(one, other) {
  const rows = new Map();
  for (const [side, step] of [["a", one], ["b", other]]) {
    for (const [id, text, , raw] of step?.candidates ?? []) rows.set(id, { ...rows.get(id), id, text, [side]: raw });
  }
  const cell = (row, side, step) => {
    if (step === undefined) return "ended";
    const chosen = step.token === row.id ? " ✓" : "";
    return row[side] === undefined ? "not among its ten" : bar(row[side], [quantity(`${side}-${row.id}`, row[side], percent), chosen]);
  };
  return table({
    name: "candidates", caption: "The model's probability for each; ✓ marks the token that stands there",
    columns: [{ title: "token" }, { title: "A" }, { title: "B" }],
    rows: [...rows.values()].map((row) => [chip(named(row.id, { [row.id]: row.text })), cell(row, "a", one), cell(row, "b", other)]),
  });
}

function stepsTable(context, one, other, chosen, parting) {
  const longest = Array.from({ length: Math.max(one.length, other.length) }, (_, step) => ({ step }));
  const cell = (step) => step && [chip(named(step.token, { [step.token]: step.token_text })), " ", percent(Math.exp(step.raw_logprob)), step.given ? " given" : ""];
  return table({
    name: "compare", caption: "Both answers, around the chosen step",
    columns: [{ title: "step" }, { title: "A" }, { title: "B" }, { title: "" }],
    rows: aroundStep(longest, chosen).map(({ step }) => ({
      selected: step === chosen,
      cells: [
        element("button", { type: "button", class: "quiet", "data-focus": `step-${step}`, onclick: () => context.select({ step }) }, String(step)),
        cell(one[step]), cell(other[step]),
        step === parting ? "they part here" : one[step]?.token === other[step]?.token ? "same" : "",
      ],
    })),
  });
}
