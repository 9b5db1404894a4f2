/** Stage 26: the answer in small frames: what the worker measured, and what this browser measured. */

import { count, duration, number } from "../format.js";
import { agrees, facts, fold, fromContext, heading, keptCharts, note, quantity, table } from "../parts.js";
import { lines } from "../charts.js";

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
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

export function draw(host, context) {
  const charts = keptCharts();
  const life = fromContext(host, context, ({ report, response }) => [report, response?.status], ({ report: { data }, steps, response }) => {
    const arrivals = response?.arrivals ?? [];
    const here = arrivals.length > 0;
    const ended = response?.endedAt !== null && response?.sentAt !== null ? response.endedAt - response.sentAt - response.heldMs : null;
    const row = (name, worker, browser) => [name, worker, here ? browser : "not measured"];
    const byStep = gaps(steps.map((step) => step.timing.at_ms));
    const byArrival = gaps(arrivals);
    return [
      table({
        name: "latencies", caption: "The same stream, measured at its two ends",
        columns: [{ title: "measure" }, { title: "worker", numeric: true }, { title: "this browser", numeric: true }],
        rows: [
          row("pieces of text", quantity("num_chunks", data.num_chunks, count), quantity("browser_chunks", arrivals.length, count)),
          row("time to first token", quantity("time_to_first_token_ms", data.time_to_first_token_ms, duration), quantity("browser_first_ms", arrivals[0] ?? null, duration)),
          row("between tokens, or pieces here, median", quantity("inter_token_ms_median", data.inter_token_ms_median, duration), quantity("browser_gap_ms", median(byArrival), duration)),
          row("between tokens, 95th percentile", quantity("inter_token_ms_p95", data.inter_token_ms_p95, duration), ""),
          row("end to end", quantity("end_to_end_ms", data.end_to_end_ms, duration), quantity("browser_end_ms", ended, duration)),
        ],
      }),
      facts([
        ["tokens per second", data.tokens_per_second === null ? null : quantity("tokens_per_second", data.tokens_per_second, (value) => number(value, 3))],
        ["bytes of text", quantity("num_bytes", data.num_bytes, count)],
      ]),
      byStep.length > 0 && heading("The time between one token and the next"),
      byStep.length > 0 && charts.chart("gaps", lines, {
        series: [
          { name: "between steps, worker's clock", values: byStep },
          ...(byArrival.length > 0 ? [{ name: "between pieces, this browser's clock", values: byArrival, dashed: true }] : []),
        ],
        x: { title: "gap, in order" }, y: { title: "milliseconds" },
      }),
      byStep.length > 0 && fold("gaps", "As a table", () => table({
        name: "gaps", caption: "Milliseconds between neighbouring steps and pieces",
        columns: [{ title: "gap" }, { title: "steps, worker", numeric: true }, { title: "pieces, browser", numeric: true }],
        rows: Array.from({ length: Math.max(byStep.length, byArrival.length) }, (_, index) => [
          String(index), index < byStep.length ? number(byStep[index], 4) : "", index < byArrival.length ? number(byArrival[index], 4) : "",
        ]),
      })),
      note("The worker counts from taking the job, the browser from pressing Send; the difference holds queue and network. The two clocks are never subtracted from each other. Several tokens may travel in one piece."),
    ];
  });
  return { update: life.update, destroy: () => (charts.destroy(), life.destroy()) };
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report, response }) => [report, response?.status], ({ report: { data }, response }) => {
    const size = new TextEncoder().encode(response?.text ?? "").length;
    return [
      note("The bytes of the answer, counted again from its text:"),
      agrees("num_bytes", size, data.num_bytes, { format: count }),
    ];
  });
}
