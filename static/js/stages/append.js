/** Stage 22: the loop, token by token, and why it ended. */

import { element } from "../dom.js";
import { count, duration, percent, plural } from "../format.js";
import { agrees, facts, fromContext, note, quantity, table } from "../parts.js";
import { aroundStep, stepChip } from "../steps.js";
import { chips } from "../tokens.js";

export const uses = ["step"];

const REASONS = {
  stop: "the model chose its end token or a stop text came up", length: "the limit of tokens was reached",
  cancelled: "it was cancelled", disconnected: "nobody was listening any more", error: "something failed",
  content_filter: "output safety stopped it", refusal: "the answer was a refusal",
};

export function sentence({ report, steps, numPromptTokens }) {
  const loop = `One token at a time: ${plural(steps.length, "step")} so far, each appending one token to a text that began with ${count(numPromptTokens)}.`;
  if (!report) return `${loop} No later token exists before its step.`;
  const { finish_reason } = report.data;
  return `${loop} It ended because ${REASONS[finish_reason] ?? finish_reason}.`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ report, steps, selection }) => [report, steps.length, selection.step], (now) => {
    const { report, steps, selection, numPromptTokens, tokens, select } = now;
    const shown = aroundStep(steps, selection.step);
    const answer = tokens.slice(tokens.length - steps.length);
    return [
      facts([
        ["steps", quantity("num_steps", report?.data.num_steps ?? steps.length, count)],
        ["ended by", report?.data.finish_reason],
        ["stopped at", report?.data.stop],
      ]),
      answer.length <= 400 && chips(answer, (token) => {
        const step = token.position - numPromptTokens;
        return { selected: step === selection.step, onclick: () => select({ step }), focus: `answer-${step}` };
      }),
      table({
        name: "steps", caption: shown.length < steps.length ? `Steps ${shown[0].step} to ${shown.at(-1).step} of ${steps.length}` : "Every step of the loop",
        columns: [
          { title: "step" }, { title: "read", numeric: true }, { title: "chose" }, { title: "its probability", numeric: true },
          { title: "rank", numeric: true }, { title: "text became", numeric: true }, { title: "time", numeric: true },
        ],
        rows: shown.map((step) => ({
          selected: step.step === selection.step,
          cells: [
            String(step.step), count(numPromptTokens + step.step), stepChip(now, step),
            percent(step.raw_logprob === null ? null : Math.exp(step.raw_logprob)), count(step.rank),
            `${count(numPromptTokens + step.step + 1)} tokens`, duration(step.timing.forward_ms + step.timing.sample_ms),
          ],
        })),
      }),
      note("Rank 0 is the likeliest token. “Read” counts the tokens that stood before the step; thanks to the cache only the newest is computed anew. The probability is the model's own, before any filter."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report, steps }) => [report, steps.length], ({ report, steps, numPromptTokens }) => {
    const last = steps.at(-1);
    return [
      last && [
        note(`${count(numPromptTokens)} tokens of prompt + ${plural(steps.length, "step")} − 1 gives the position of the newest token:`),
        agrees("last-position", numPromptTokens + steps.length - 1, last.position, { format: count }),
      ],
      report ? agrees("num_steps", steps.length, report.data.num_steps, { format: count }) : element("p", {}, "The loop is still running."),
    ];
  });
}
