/** Stage 2: each check in order, with its result. */

import { count, duration, plural, wait } from "../format.js";
import { facts, quantity, table } from "../parts.js";
import { fromReport } from "../pictures.js";

export const uses = [];

/** The check that counts answers, where it was reached. */
function limitOf({ checks }) {
  return checks.find(({ remaining }) => typeof remaining === "number");
}

function standing({ remaining, limit, resets_in_s: resets }) {
  return [quantity("remaining", remaining, count), ` of ${count(limit)}`, resets ? `; more in ${wait(resets)}` : null];
}

export function sentence({ report: { data, duration_ms: took } }) {
  const passed = data.checks.filter((check) => check.passed).length;
  const limit = limitOf(data);
  const left = limit ? ` ${plural(limit.remaining, "answer")} of ${count(limit.limit)} remain for now.` : "";
  if (data.refused) {
    const failed = data.checks.find((check) => check.passed === false);
    return `The front door stopped this request at the check “${failed?.name ?? data.refused}”, before any costly computation.${left}`;
  }
  return `The front door made ${plural(passed, "check")} in ${duration(took)} and let the request of ${/^[aeiou]/.test(data.principal) ? "an" : "a"} ${data.principal} in.${left}`;
}

const RESULTS = { true: "passed\u00a0✓", false: "failed\u00a0✗", null: "not reached" };
const ROWS = { true: "", false: "row-alarm", null: "row-muted" };

export const draw = fromReport((data) => [
  facts([
    ["request id", data.request_id],
    ["asked by", data.principal],
    ["refused with", data.refused],
    ["checks passed", quantity("checks_passed", data.checks.filter((check) => check.passed).length, count)],
    ["answers left", limitOf(data) && standing(limitOf(data))],
  ]),
  table({
    name: "checks", caption: "Checks, in order", columns: ["check", "result", "what it found", "#time"],
    rows: data.checks.map((check) => ({
      class: ROWS[check.passed],
      cells: [check.name, RESULTS[check.passed], check.detail, check.passed !== null && duration(check.duration_ms)],
    })),
  }),
]);
