/** Stage 5: which worker, why, and how long the request waited. */

import { count, duration, plural } from "../format.js";
import { facts, fromContext, note, quantity, table } from "../parts.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const chosen = data.workers.find((worker) => worker.chosen);
  const others = data.workers.length > 1 ? ` out of ${plural(data.workers.length, "worker")}` : ", the only worker";
  return `After ${duration(data.queue_ms)} in the queue the request went to ${chosen?.name ?? "a worker"}${others}, which runs ${data.model} on a ${chosen?.device ?? "device"}.`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => [
    facts([
      ["asked for", data.requested_model],
      ["model", data.model],
      ["why this worker", data.reason],
      ["queue time", quantity("queue_ms", data.queue_ms, duration)],
      ["fingerprint", data.fingerprint],
    ]),
    table({
      name: "workers", caption: "Workers, and the value of each criterion",
      columns: [
        { title: "worker" }, { title: "model" }, { title: "device" }, { title: "kernel" }, { title: "region" },
        { title: "free blocks", numeric: true }, { title: "running", numeric: true }, { title: "waiting", numeric: true },
        { title: "last seen", numeric: true }, { title: "verdict" },
      ],
      rows: data.workers.map((worker) => ({
        selected: worker.chosen,
        cells: [
          worker.name, worker.model, worker.device, worker.kernel, worker.region || "any",
          quantity("num_free_blocks", worker.num_free_blocks, count), count(worker.num_running), count(worker.num_waiting),
          duration(worker.last_seen_s * 1000), `${worker.chosen ? "chosen: " : ""}${worker.reason}`,
        ],
      })),
    }),
    note("The queue time is measured by the database's clock, from the job's creation to its taking. The fingerprint names what the numbers depend on: weights, kernels, library."),
  ]);
}
