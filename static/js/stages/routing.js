/** Stage 5: which worker, why, and how long the request waited. */

import { count, duration, plural } from "../format.js";
import { facts, field, table } from "../parts.js";
import { fromReport } from "../pictures.js";

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
  "free blocks": (worker) => field(worker, "num_free_blocks", count),
  running: ({ num_running: running }) => count(running),
  waiting: ({ num_waiting: waiting }) => count(waiting),
  "last seen": ({ last_seen_s: seen }) => `${duration(seen * 1000)} before`,
  verdict: ({ chosen, reason }) => `${chosen ? "chosen: " : ""}${reason}`,
};

export const draw = fromReport((data) => [
  facts([
    ["asked for", data.requested_model],
    ["model", data.model],
    ["queue time", field(data, "queue_ms", duration)],
    ["fingerprint", data.fingerprint],
  ]),
  table({
    name: "workers", caption: "Workers, and the value of each criterion",
    columns: ["criterion", ...data.workers.map(({ name }) => name)],
    rows: Object.entries(CRITERIA).map(([name, value]) => [name, ...data.workers.map(value)]),
  }),
]);
