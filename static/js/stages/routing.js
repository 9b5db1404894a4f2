/** Stage 5: which worker, why, and how long the request waited. */

import { count, duration, plural } from "../format.js";
import { facts, fromContext, note, quantity, table } from "../parts.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const chosen = data.workers.find((worker) => worker.chosen);
  const others = data.workers.length > 1 ? ` out of ${plural(data.workers.length, "worker")}` : ", the only worker";
  return `After ${duration(data.queue_ms)} in the queue the request went to ${chosen?.name ?? "a worker"}${others}, which runs ${data.model} on a ${chosen?.device ?? "device"}.`;
}

const CRITERIA = {
  model: ({ model }) => model,
  device: ({ device }) => device,
  kernel: ({ kernel }) => kernel,
  region: ({ region }) => region || "any",
  "free blocks": ({ num_free_blocks: free }) => quantity("num_free_blocks", free, count),
  running: ({ num_running: running }) => count(running),
  waiting: ({ num_waiting: waiting }) => count(waiting),
  "last seen": ({ last_seen_s: seen }) => `${duration(seen * 1000)} before`,
  verdict: ({ chosen, reason }) => `${chosen ? "chosen: " : ""}${reason}`,
};

export function draw(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => [
    facts([
      ["asked for", data.requested_model],
      ["model", data.model],
      ["queue time", quantity("queue_ms", data.queue_ms, duration)],
      ["fingerprint", data.fingerprint],
    ]),
    table({
      name: "workers", caption: "Workers, and the value of each criterion",
      columns: [{ title: "criterion" }, ...data.workers.map(({ name }) => ({ title: name }))],
      rows: Object.entries(CRITERIA).map(([name, value]) => [name, ...data.workers.map(value)]),
    }),
    note("The queue time is measured by the database's clock, from the job's creation to its taking. The fingerprint names what the numbers depend on: weights, kernels, library."),
  ]);
}
