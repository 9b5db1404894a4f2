/** What stages that look at single steps share. A step is a `trace.step` event. */

import { chip } from "./tokens.js";
import { tokenAt } from "./parts.js";

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

/** A step's candidates as objects, most probable first by the model's own softmax. */
export function candidates(step) {
  return step.candidates
    .map(([id, text, logit, raw, final]) => ({ id, text, logit, raw, final }))
    .sort((a, b) => b.raw - a.raw);
}
