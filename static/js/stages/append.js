/** Stage 22: the loop, token by token, and why it ended. */

import { count, duration, percent, plural } from "../format.js";
import { agrees, facts, field, note, table } from "../parts.js";
import { fromReport } from "../pictures.js";
import { aroundStep, ofSteps, stepChip } from "../steps.js";
import { chips } from "../tokens.js";

export const uses = ["step"];

const REASONS = {
  stop: "the model chose its end token or a stop text came up", length: "the limit of tokens was reached",
  cancelled: "it was cancelled", disconnected: "nobody was listening any more", error: "something failed",
  content_filter: "output safety stopped it", refusal: "the answer was a refusal",
};

export function sentence({ report, steps, numPromptTokens }) {
  const { finish_reason: reason } = report.data;
  return `One token at a time: ${plural(steps.length, "step")}, each appending one token to a text that began with ${count(numPromptTokens)}. It ended because ${REASONS[reason] ?? reason}.`;
}

const MOST_CHIPS = 400;

export const draw = fromReport((data, context) => {
  const { steps, selection, numPromptTokens, tokens, select } = context;
  const shown = aroundStep(steps, selection.step);
  const answer = tokens.slice(tokens.length - steps.length);
  return [
    facts([
      ["steps", field(data, "num_steps", count)],
      ["ended by", data.finish_reason],
      ["stopped at", data.stop],
    ]),
    answer.length <= MOST_CHIPS && chips(answer, (token) => {
      const step = token.position - numPromptTokens;
      return { selected: step === selection.step, onclick: () => select({ step }), focus: `answer-${step}` };
    }),
    table({
      name: "steps", caption: ofSteps(shown, steps) ?? "Every step of the loop",
      columns: ["step", "#read", "chose", "#its probability", "#rank", "#text became", "#time"],
      rows: shown.map((step) => ({
        selected: step.step === selection.step,
        cells: [
          String(step.step), count(numPromptTokens + step.step), stepChip(context, step),
          percent(step.raw_logprob === null ? null : Math.exp(step.raw_logprob)), count(step.rank),
          `${count(numPromptTokens + step.step + 1)} tokens`, duration(step.timing.forward_ms + step.timing.sample_ms),
        ],
      })),
    }),
  ];
}, ({ steps, selection }) => [steps.length, selection.step]);

export const arithmetic = fromReport((data, { steps, numPromptTokens }) => {
  const last = steps.at(-1);
  return [
    last && [
      note(`${count(numPromptTokens)} tokens of prompt + ${plural(steps.length, "step")} − 1 gives the position of the newest token:`),
      agrees("last-position", numPromptTokens + steps.length - 1, last.position, { format: count }),
    ],
    agrees("num_steps", steps.length, data.num_steps, { format: count }),
  ];
}, ({ steps }) => [steps.length]);
