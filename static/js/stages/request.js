/** Stage 1: the frame as it arrived, readable and exact, and what came with it. */

import { element } from "../dom.js";
import { bytes, count, moment } from "../format.js";
import { agrees, facts, field, fold, heading, note, table } from "../parts.js";
import { fromReport } from "../pictures.js";

export const uses = [];

export function sentence({ report }) {
  const { transport, num_bytes, encrypted } = report.data;
  const how = transport === "websocket" ? "one WebSocket message" : "one HTTP request";
  return `Your text left the browser inside ${how} of ${bytes(num_bytes)}, over a connection that was ${
    encrypted ? "" : "not "
  }encrypted. This is ordinary software: no neural network has seen it yet.`;
}

function pretty(frame) {
  try {
    return JSON.stringify(JSON.parse(frame), null, 2);
  } catch {
    return null; // cut, or never JSON: the exact text below shows what came
  }
}

export const draw = fromReport((data) => {
  const readable = pretty(data.frame);
  return [
    facts([
      ["size", field(data, "num_bytes", bytes)],
      ["transport", data.transport],
      ["arrived", moment(data.arrived_at)],
      ["encrypted", data.encrypted ? "yes" : "no"],
    ]),
    readable && [heading("The message, laid out"), element("pre", { class: "code", tabindex: "0", "data-scroll": "frame" }, readable)],
    heading("Exactly as it arrived", data.truncated ? `, the first ${count(data.frame.length)} characters` : ""),
    element("pre", { class: "code code-wrapped", tabindex: "0", "data-name": "frame", "data-scroll": "exact" }, data.frame),
    table({
      name: "headers", caption: "Headers that matter; secrets are never shown", columns: ["header", "value"],
      rows: data.headers.map(({ name, value }) => [name, element("code", {}, value)]),
    }),
  ];
});

const ROW = 16;

export const arithmetic = fromReport((data) => {
  const encoded = new TextEncoder().encode(data.frame);
  const rows = Math.min(8, Math.ceil(encoded.length / ROW));
  const dump = Array.from({ length: rows }, (_, row) => {
    const part = [...encoded.slice(row * ROW, (row + 1) * ROW)];
    const hexadecimal = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const characters = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    return `${String(row * ROW).padStart(4, "0")}  ${hexadecimal.padEnd(ROW * 3)} ${characters}`;
  });
  return [
    note("A character is one to four bytes in UTF-8. Encoding the frame again gives its size:"),
    data.truncated
      ? note("The frame was longer than what is shown, so its bytes cannot be counted here.")
      : agrees("bytes", encoded.length, data.num_bytes, { format: count }),
    fold("dump", `The first ${rows * ROW} bytes`, () => element("pre", { class: "code" }, dump.join("\n"))),
  ];
});
