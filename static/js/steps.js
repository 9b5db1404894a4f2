/** What stages that look at single steps share. A step is a `trace.step` event. */

import { chip, named, tokenAt } from "./tokens.js";

const WINDOW = 40;

/** At most 40 steps around the chosen one: a table of a thousand rows helps nobody. */
export function aroundStep(steps, chosen) {
  const middle = chosen ?? steps.length - 1;
  const from = Math.max(0, Math.min(middle - WINDOW / 2, steps.length - WINDOW));
  return steps.slice(from, from + WINDOW);
}

/** A step's token as a button that chooses the step. */
export function stepChip(context, { step }) {
  return chip(tokenAt(context, context.numPromptTokens + step), {
    onclick: () => context.select({ step }), selected: step === context.selection.step, focus: `step-${step}`,
  });
}

/** The token that a step chose, at no position. */
export function chosenToken({ token, token_text: text }) {
  return named(token, { [token]: text });
}

/** A step's candidates as tokens with their scores, most probable first by the model's own softmax. */
export function candidates(step) {
  return step.candidates
    .map(([id, text, logit, raw, final]) => ({ ...named(id, { [id]: text }), logit, raw, final }))
    .sort((a, b) => b.raw - a.raw);
}

/** The candidate with the most of "logit", "raw" or "final". */
export function best(step, by) {
  return candidates(step).reduce((most, one) => (one[by] > most[by] ? one : most));
}

/** A caption for a table of only some steps; null where it has all. */
export function ofSteps(shown, steps) {
  return shown.length < steps.length ? `Steps ${shown[0].step} to ${shown.at(-1).step} of ${steps.length}` : null;
}
