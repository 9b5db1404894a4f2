/** Stage 26: the answer in small frames: what the worker measured, and what this browser measured. */

import { lines } from "../charts.js";
import { count, duration, number } from "../format.js";
import { agrees, facts, field, fold, heading, note, quantity, table } from "../parts.js";
import { fromReport } from "../pictures.js";

export const uses = [];

export function sentence({ report: { data } }) {
  if (data.time_to_first_token_ms === null) return "No text was sent.";
  const first = `The first text left after ${duration(data.time_to_first_token_ms)}`;
  const rate = data.tokens_per_second === null ? "" : ` at ${number(data.tokens_per_second, 3)} tokens per second`;
  const pieces = data.num_chunks > 1 ? `the last of ${count(data.num_chunks)} pieces after ${duration(data.end_to_end_ms)}` : "all of it in one piece";
  return `${first}, ${pieces}${rate}. Nobody typed: the pace is that of computation and network.`;
}

function gaps(moments) {
  return moments.slice(1).map((moment, index) => moment - moments[index]);
}

function median(values) {
  if (values.length === 0) return null;
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export const draw = fromReport((data, { steps, response }, chart) => {
  const { arrivals } = response;
  const here = arrivals.length > 0;
  const ended = response.endedAt !== null && response.sentAt !== null ? response.endedAt - response.sentAt - response.heldMs : null;
  const byStep = gaps(steps.map((step) => step.timing.at_ms));
  const byArrival = gaps(arrivals);
  const row = (title, name, own, mine, format = duration) => [
    title, field(data, name, format), here ? own && quantity(own, mine, format) : "not measured",
  ];
  return [
    table({
      name: "latencies", caption: "The same stream, measured at its two ends", columns: ["measure", "#worker", "#this browser"],
      rows: [
        row("pieces of text", "num_chunks", "browser_chunks", arrivals.length, count),
        row("time to first token", "time_to_first_token_ms", "browser_first_ms", arrivals[0]),
        row("between tokens, or pieces here, median", "inter_token_ms_median", "browser_gap_ms", median(byArrival)),
        row("between tokens, 95th percentile", "inter_token_ms_p95"),
        row("end to end", "end_to_end_ms", "browser_end_ms", ended),
      ],
    }),
    facts([
      ["tokens per second", data.tokens_per_second === null ? null : field(data, "tokens_per_second", (value) => number(value, 3))],
      ["bytes of text", field(data, "num_bytes", count)],
    ]),
    byStep.length > 0 && [
      heading("The time between one token and the next"),
      chart("gaps", lines, {
        series: [
          { name: "between steps, worker's clock", values: byStep },
          ...(byArrival.length > 0 ? [{ name: "between pieces, this browser's clock", values: byArrival, dashed: true }] : []),
        ],
        x: { title: "gap, in order" }, y: { title: "milliseconds" },
      }),
      fold("gaps", "As a table", () => table({
        name: "gaps", caption: "Milliseconds between neighbouring steps and pieces", columns: ["gap", "#steps, worker", "#pieces, browser"],
        rows: Array.from({ length: Math.max(byStep.length, byArrival.length) }, (_, index) => [
          String(index), ...[byStep, byArrival].map((all) => index < all.length && number(all[index], 4)),
        ]),
      })),
    ],
  ];
}, ({ response }) => [response.status]);

export const arithmetic = fromReport((data, { response }) => [
  note("The bytes of the answer, counted again from its text:"),
  agrees("num_bytes", new TextEncoder().encode(response.text).length, data.num_bytes, { format: count }),
], ({ response }) => [response.status]);
