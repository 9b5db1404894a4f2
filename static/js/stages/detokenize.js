/** Stage 24: ids to bytes to characters, and what had to wait for its other half. */

import { element } from "../dom.js";
import { count, plural } from "../format.js";
import { check, facts, field, note, quantity, table } from "../parts.js";
import { fromReport } from "../pictures.js";
import { aroundStep, ofSteps, stepChip } from "../steps.js";
import { joinedText } from "../tokens.js";

export const uses = ["step"];

export function sentence({ report }) {
  const { num_tokens, num_bytes, num_characters, num_held_back } = report.data;
  const held = num_held_back > 0 ? `; ${plural(num_held_back, "time")} a piece had to wait for what came next` : "";
  return `${plural(num_tokens, "id")} became ${plural(num_bytes, "byte")} and ${plural(num_characters, "character")}${held}.`;
}

/** The token's bytes in hexadecimal: its text's, or the escaped ones of a split character. */
function hexadecimal(text) {
  const parts = text.split(/\\x([0-9a-f]{2})/i);
  return parts.flatMap((part, index) =>
    index % 2 ? [part] : [...new TextEncoder().encode(part)].map((byte) => byte.toString(16).padStart(2, "0")),
  ).join(" ");
}

/** The step that chose an end token: the last one, with neither text nor bytes of its own. */
function endStep(steps, response) {
  const last = steps.at(-1);
  return response.finishReason === "stop" && last?.text === "" && last.held_bytes === 0 ? last : null;
}

export const draw = fromReport((data, context) => {
  const { steps, selection, response } = context;
  const shown = aroundStep(steps, selection.step);
  const end = endStep(steps, response);
  return [
    facts([
      ["tokens", field(data, "num_tokens", count)],
      ["bytes", field(data, "num_bytes", count)],
      ["characters", field(data, "num_characters", count)],
      ["steps that held something back", field(data, "num_held_back", count)],
    ]),
    table({
      name: "bytes", caption: ofSteps(shown, steps) ?? "Step by step",
      columns: ["step", "#id", "token", "bytes, hexadecimal", "released", "#held back"],
      rows: shown.map((step) => ({
        selected: step.step === selection.step,
        cells: [
          String(step.step), quantity(`id-${step.step}`, step.token, String), stepChip(context, step),
          step === end ? "none: it ends the answer" : element("code", {}, hexadecimal(step.token_text)), element("bdi", { class: "released" }, step.text),
          step.held_bytes > 0 && `${count(step.held_bytes)} bytes`,
        ],
      })),
    }),
  ];
}, ({ steps, selection, response }) => [steps.length, selection.step, response.finishReason]);

export const arithmetic = fromReport((_, { steps, tokens, response }) => {
  const released = steps.map((step) => step.text).join("");
  const joined = joinedText(tokens.slice(tokens.length - steps.length));
  const decoded = joined.startsWith(released) ? joined : joined.replace(/^ /, "");
  return [
    note("The bytes of all tokens, joined and read as UTF-8 here, must begin with the text the service released (an end token has a name, but no text; a tokenizer that puts a space before every text takes the first one away again):"),
    check("text", decoded.startsWith(released), `${plural([...released].length, "character")} released by the steps, ${plural([...response.text].length, "character")} in the answer:`),
  ];
}, ({ steps, response }) => [steps.length, response.text]);
