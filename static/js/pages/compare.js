/**
 * Two answers beside each other, step by step: where they part, how probable each token was, and what they were asked
 * for. A is the answer in view; B another of its conversation, or any of the reader's own (`with` in the address).
 */

import { createAnswerPicker } from "../answer-picker.js";
import { getResponse } from "../api.js";
import { element } from "../dom.js";
import { count, number, percent, plural } from "../format.js";
import { bar, facts, heading, note, quantity, sum, table } from "../parts.js";
import { fromContext } from "../pictures.js";
import { wholePrompt } from "../prompt-tokens.js";
import { isActive } from "../record.js";
import { adopt, loadJourney, touch } from "../responses.js";
import { aroundStep } from "../steps.js";
import { subscribe } from "../store.js";
import { chip, label, named } from "../tokens.js";

const WORDS = 60; // characters of an answer in a line
const NOTHING = { record: null, conversation: null, problem: null };

export function draw(host, context) {
  let latest = context;
  let fetched = { id: null, ...NOTHING }; // the answer of another conversation
  const body = element("div", { class: "stage-picture" });
  if (context.again !== null) {
    host.append(createAnswerPicker("Choose B among all your answers", (id) => latest.select({ with: id, response: latest.response?.id ?? null })));
  }
  host.append(body);
  const both = () => ({ ...latest, b: here(latest) ?? fetched });
  const life = fromContext(depends, nodes)(body, both());
  const redraw = () => life.update(both());
  const stop = subscribe(["records"], redraw);

  /** What is missing of either is read when they are first looked at. */
  async function load() {
    const { with: wanted, response: one } = latest;
    if (here(latest) === null && fetched.id !== wanted) await fetch(wanted);
    const { record: other } = both().b;
    if (other === null) return;
    await loadJourney(other);
    for (const record of [one, other]) if (record !== null && (await wholePrompt(record)) !== null) touch(record);
    redraw();
  }

  async function fetch(id) {
    fetched = { id, ...NOTHING };
    try {
      const found = await getResponse(id);
      if (fetched.id !== id) return; // another has been chosen meanwhile
      fetched.conversation = found.conversation_id;
      fetched.record = adopt({
        id: found.id, status: found.status, finishReason: found.finish_reason, feedback: found.feedback, answerId: found.answer_id,
        text: isActive(found) ? "" : found.text, html: found.html,
      });
    } catch (error) {
      if (fetched.id === id) fetched.problem = error.status === 404 ? "There is no such answer of yours to compare with." : error.message;
    }
    redraw();
  }

  load();
  return {
    update(next) {
      latest = next;
      redraw();
      load();
    },
    destroy: stop,
  };
}

function depends({ response, b, chosenStep }) {
  return [response?.version, b.record, b.record?.version, b.problem, chosenStep];
}

/**
 * B, where no other conversation has to be read for it: the chosen one, else another version of the answer in view,
 * else the newest. Null when it stands elsewhere.
 */
function here({ response, answers, with: wanted, again }) {
  const others = answers.filter(({ record }) => record !== response && record.id !== null && !isActive(record));
  const chosen = others.find(({ record }) => record.id === wanted);
  if (!chosen && again !== null && wanted !== null && wanted !== response?.id) return null;
  const parent = answers.find(({ record }) => record === response)?.parent;
  const found = chosen ?? others.findLast((one) => one.parent === parent) ?? others.at(-1);
  return { ...NOTHING, record: found?.record ?? null };
}

function nodes(context) {
  const { response: one, b: { record: other, conversation, problem } } = context;
  if (problem !== null) return note(problem);
  if (other === null) return note(context.with && context.again !== null ? "The other answer is being read." : "There is only one answer here. Ask for it again, click a token under it and go on with another one, or choose one of another conversation: then both can be compared.");
  const names = element(
    "div", { class: "lines" },
    one && element("p", {}, "A, the answer that is looked into: ", opening(one)),
    element("p", {}, "B: ", opening(other), conversation && [", of another conversation (", element("a", { href: `/c/${conversation}#response=${other.id}` }, "open it"), ")"]),
  );
  if (one === null) return [names, note("Open or ask for an answer to stand beside it.")];
  if (isActive(other)) return [names, note("B is still being written.")];
  if (one.steps.length === 0 || other.steps.length === 0) return [names, note("One of the two has no tokens to compare, or they are still being read.")];
  const pair = pairOf(one, other);
  const { parting } = pair;
  const step = Math.min(context.chosenStep ?? parting ?? 0, Math.max(one.steps.length, other.steps.length) - 1);
  return [
    names,
    element("p", { class: "stage-sentence" }, verdict(pair), " ", reason(pair)),
    one.fingerprint !== other.fingerprint && note(`The numbers come from different engines (A: ${one.fingerprint}, B: ${other.fingerprint}). Another engine rounds otherwise, and another model computes otherwise: a difference may come from that alone.`),
    facts([
      ["tokens in common", quantity("common", pair.common, count)],
      ["largest difference of a common token's probability", pair.common > 0 && quantity("difference", largestDifference(pair), percent)],
      ["mean probability of a token, A", quantity("mean-a", meanProbability(one.steps), percent)],
      ["mean probability of a token, B", quantity("mean-b", meanProbability(other.steps), percent)],
    ].filter(([, value]) => value !== false)),
    heading("What they were asked for"),
    askedTable(pair),
    heading(`Step ${step}: how each token was chosen, and the same candidates in both`),
    choiceTable(pair, step),
    candidatesTable(pair, step),
    heading("Step by step"),
    stepsTable(context, pair, step),
    note("Each percentage is the model's own, over the whole vocabulary and before any filter, unless a row says otherwise. From the step where two answers part, they read different texts: equal numbers of a step then compare different questions."),
  ];
}

function opening(record) {
  const text = record.text.trim();
  return element("bdi", {}, text === "" ? `(no text, ${record.status})` : `“${text.length > WORDS ? `${text.slice(0, WORDS).trimEnd()}…` : text}”`);
}

// ------------------------------------------------------------------------------------------------ what is compared

/**
 * Tokens of one model are the same when their ids are; those of two models when their texts are. `parting` is the first
 * step at which they hold different tokens or one has ended, `promptParting` the first such place of their prompts;
 * null where they are the same.
 */
function pairOf(one, other) {
  const keyOf = one.model === other.model ? ({ id }) => id : ({ text }) => text;
  const answer = ({ steps }) => steps.map((step) => keyOf({ id: step.token, text: step.token_text }));
  const prompt = ({ tokens }) => tokens.filter(({ source }) => source !== "answer").map(keyOf);
  const parting = firstDifference(answer(one), answer(other));
  return {
    one, other, keyOf, parting, common: parting ?? one.steps.length, promptParting: firstDifference(prompt(one), prompt(other)),
    asked: askedDifferently(one, other),
  };
}

function firstDifference(a, b) {
  const index = Array.from({ length: Math.max(a.length, b.length) }).findIndex((_, place) => a[place] !== b[place]);
  return index === -1 ? null : index;
}

/** The sampling parameters in which they differ, and the seed in any case: [[name, A's, B's]]. */
function askedDifferently({ sampling: a }, { sampling: b }) {
  if (!a || !b) return [];
  return Object.keys(a).map((name) => [name, JSON.stringify(a[name]), JSON.stringify(b[name])]).filter(([name, x, y]) => name === "seed" || x !== y);
}

function verdict({ one, other, parting, promptParting }) {
  const prompts = promptParting === null ? "Both read the same prompt" : `They read different prompts (${plural(one.numPromptTokens, "token")} and ${count(other.numPromptTokens)})`;
  if (parting === null) return `${prompts} and are the same in all ${plural(one.steps.length, "token")}.`;
  const words = ({ steps, finishReason }) => {
    const step = steps[parting];
    return step ? `“${label({ text: step.token_text })}” (${percent(probability(step))}${step.given ? ", given" : ""})` : `nothing more (it ended: ${finishReason})`;
  };
  return `${prompts}. They part at step ${parting}: A has ${words(one)}, B has ${words(other)}.`;
}

/** Why they part, as far as the records tell. */
function reason({ one, other, parting, promptParting, asked }) {
  const [a, b] = [one.steps[parting], other.steps[parting]];
  if (!a || !b) return "";
  if (a.given || b.given) return `The token of ${a.given && b.given ? "both" : a.given ? "A" : "B"} was not drawn there: a branch was given it.`;
  if (promptParting !== null) return "They had read different texts, so the model had two different questions before it; that alone can part them.";
  const differing = asked.filter(([, x, y]) => x !== y).map(([name]) => name);
  if (one.fingerprint !== other.fingerprint) differing.unshift("the engine");
  if (differing.length === 0) return "Engine, seed and parameters are the same too: what is left are last digits, which depend on whether a prompt was read in one piece or partly from the cache.";
  return `Until there both had read the same text. What differs: ${differing.join(", ")}.`;
}

function probability(step) {
  return Math.exp(step.raw_logprob ?? -Infinity);
}

function largestDifference({ one, other, common }) {
  return Math.max(...one.steps.slice(0, common).map((step, index) => Math.abs(probability(step) - probability(other.steps[index]))));
}

/** The geometric mean: the number which, taken once for every token, multiplies to the probability of the whole answer. */
function meanProbability(steps) {
  return Math.exp(sum(steps.map(({ raw_logprob: logprob }) => logprob ?? 0)) / steps.length);
}

// ------------------------------------------------------------------------------------------------ tables

const SIDES = ["", "A", "B"];

function askedTable({ one, other, promptParting, asked }) {
  const prompt = ({ tokens, numPromptTokens }) => {
    const token = promptParting === null ? undefined : tokens[promptParting];
    return [plural(numPromptTokens, "token"), token && token.source !== "answer" ? [`, at position ${promptParting} `, chip(token)] : ""];
  };
  const row = (name, a, b, differ) => ({ class: differ ? null : "row-muted", cells: [name, a, b] });
  return table({
    name: "asked", caption: "Faint rows are the same in both; parameters that are not listed are, too", columns: SIDES,
    rows: [
      row("prompt", prompt(one), prompt(other), promptParting !== null), row("model", one.model, other.model, one.model !== other.model),
      ...asked.map(([name, a, b]) => row(name, a, b, a !== b)),
    ],
  });
}

function choiceTable({ one, other }, step) {
  const [a, b] = [one.steps[step], other.steps[step]];
  const row = (name, of) => [name, ...[a, b].map((side) => (side === undefined ? "ended" : of(side)))];
  return table({
    name: "choice", caption: "How each token was chosen", columns: SIDES,
    rows: [
      row("token", tokenOf), row("the model's probability", (side) => percent(probability(side))),
      row("after temperature and filters", ({ logprob }) => (logprob === null ? "removed" : percent(Math.exp(logprob)))),
      row("the draw, from 0 to 1", ({ given, ledger }) => (given ? "none: given" : ledger.draw === null ? "none: the most probable is taken" : number(ledger.draw))),
    ],
  });
}

function tokenOf(step) {
  return chip(named(step.token, { [step.token]: step.token_text }));
}

function candidatesTable({ one, other, keyOf }, place) {
  const [a, b] = [one.steps[place], other.steps[place]];
  const rows = new Map();
  for (const [side, step] of [["a", a], ["b", b]]) {
    for (const [id, text, , raw] of step?.candidates ?? []) rows.set(keyOf({ id, text }), { id, text, ...rows.get(keyOf({ id, text })), [side]: raw });
  }
  const cell = ([key, row], side, step) => {
    if (step === undefined) return "ended";
    const chosen = keyOf({ id: step.token, text: step.token_text }) === key ? " ✓" : "";
    return row[side] === undefined ? "not among its ten" : bar(row[side], [quantity(`${side}-${row.id}`, row[side], percent), chosen]);
  };
  return table({
    name: "candidates", caption: "The model's probability for each; ✓ marks the token that stands there",
    columns: ["token", "A", "B"],
    rows: [...rows].map((row) => [chip(named(row[1].id, { [row[1].id]: row[1].text })), cell(row, "a", a), cell(row, "b", b)]),
  });
}

function stepsTable(context, { one, other, keyOf, parting }, chosen) {
  const longest = Array.from({ length: Math.max(one.steps.length, other.steps.length) }, (_, step) => ({ step }));
  const key = (step) => step && keyOf({ id: step.token, text: step.token_text });
  const cell = (step) => step && [tokenOf(step), " ", percent(probability(step)), step.given ? " given" : ""];
  return table({
    name: "compare", caption: "Both answers, around the chosen step",
    columns: ["step", "A", "B", ""],
    rows: aroundStep(longest, chosen).map(({ step }) => ({
      selected: step === chosen,
      cells: [
        element("button", { type: "button", class: "quiet", "data-focus": `step-${step}`, onclick: () => context.select({ step }) }, String(step)),
        cell(one.steps[step]), cell(other.steps[step]),
        step === parting ? "they part here" : key(one.steps[step]) === key(other.steps[step]) ? "same" : "",
      ],
    })),
  });
}
