/** The debugging table: 22 rows from characters to characters, with what this request put in and got out. */

import { element } from "../dom.js";
import { selectionLink } from "../links.js";
import { note, quantity } from "../parts.js";
import { fromContext } from "../pictures.js";
import { timeOf } from "../stage-panel.js";

const COLUMNS = ["row", "stage", "in", "operation", "out", "field", "time"];

export const draw = fromContext(({ stages, response }) => [stages.size, response?.version], nodes);

function nodes({ catalogue, stages }) {
  const rows = Map.groupBy(catalogue.filter(({ debug_row: row }) => row !== null), ({ debug_row: row }) => row);
  const reached = [...rows.values()].filter((group) => group.some(({ slug }) => stages.has(slug)));
  return [
    note(
      "A wrong answer went wrong in some row: find the first whose output is not what it should be. This request reached ",
      quantity("reached", reached.length), ` of ${rows.size} rows. Rows inside the model tell of all layers while the prompt was read; logits, probabilities and sampling of step 0.`,
    ),
    element(
      "div", { class: "table-box debug-box", tabindex: "0", role: "group", "aria-label": "Debugging table", "data-scroll": "debug", "data-focus": "debug" },
      element(
        "table", { class: "debug-table", "data-table": "debug" },
        element("thead", {}, element("tr", {}, COLUMNS.map((title) => element("th", { scope: "col" }, title)))),
        [...rows].map(([number, group]) => element(
          "tbody", { "data-row": number },
          group.map((stage, index) => line(stage, stages.get(stage.slug) ?? null, index === 0 && { number, size: group.length })),
        )),
      ),
    ),
  ];
}

/** One stage; the first of a row bears the row's number. */
function line(stage, report, first) {
  const cell = (title, ...children) => element("td", { "data-title": title, dir: "auto" }, children);
  return element(
    "tr", { class: report === null ? "row-muted" : null, "data-stage": stage.slug },
    first && element("th", { scope: "rowgroup", rowspan: first.size, class: "debug-number" }, String(first.number)),
    element("th", { scope: "row" }, selectionLink({ stage: stage.slug }, { "data-focus": `debug-${stage.slug}` }, stage.title)),
    cell("in", report?.input ?? stage.input),
    cell("operation", report?.operation ?? stage.operation),
    cell("out", report?.output ?? stage.output),
    cell("field", stage.subject),
    cell("time", timeIn(report)),
  );
}

function timeIn(report) {
  if (report === null) return "not reached";
  const skipped = { skipped: "skipped; ", ended_here: "ended here; " }[report.outcome] ?? "";
  return [skipped, report.duration_ms ? quantity(`time-${report.stage}`, report.duration_ms, () => timeOf(report)) : timeOf(report)];
}
