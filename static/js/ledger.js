/** A step's ledger as pictures: its filters as a funnel, and the line on which the draw falls. */

import { element } from "./dom.js";
import { count, number, percent, plural } from "./format.js";
import { bar, quantity, sum, table } from "./parts.js";
import { candidates } from "./steps.js";
import { label } from "./tokens.js";

const NAMES = {
  logit_bias: "logit bias", penalties: "penalties", temperature: "temperature", top_k: "top-k", top_p: "top-p", min_p: "min-p",
};

/** The rows in the order the draw lays them out: most probable after the filters first. */
export function survivors(step) {
  return candidates(step).filter(({ final }) => final > 0).sort((a, b) => b.final - a.final);
}

function setting({ name, value }) {
  if (name === "logit_bias") return Object.keys(value).length === 0 ? "none" : plural(Object.keys(value).length, "token");
  if (name === "penalties") return Object.entries(value).map(([kind, size]) => `${kind} ${number(size)}`).join(", ");
  return number(value);
}

/** The filters in their order. With `before`, another step's ledger, its survivors stand beside; `prefix` tells values apart. */
export function funnel({ filters }, { before, prefix = "" } = {}) {
  const vocabulary = filters[0].num_survivors;
  return table({
    name: `${prefix}funnel`, caption: "Filter by filter; the bar's length is the logarithm of the survivors",
    columns: ["filter", "setting", "survivors", ...(before ? ["#in the answer"] : []), "#mass removed"],
    rows: filters.map((filter, index) => ({
      class: filter.active ? "" : "row-muted",
      cells: [
        `${NAMES[filter.name] ?? filter.name}${filter.active ? "" : " (off)"}`, setting(filter),
        bar(Math.log(filter.num_survivors + 1) / Math.log(vocabulary + 1), quantity(`${prefix}survivors-${filter.name}`, filter.num_survivors, count), "final"),
        ...(before ? [count(before.filters[index].num_survivors)] : []),
        quantity(`${prefix}removed-${filter.name}`, filter.removed_mass, percent),
      ],
    })),
  });
}

/** The survivors' probabilities laid end to end, and where the draw falls. */
export function drawLine(step, prefix = "") {
  const { draw } = step.ledger;
  const rows = survivors(step);
  const rest = 1 - sum(rows.map(({ final }) => final));
  return [
    element(
      "div", { class: "draw-line", role: "img", "aria-label": `The survivors' probabilities laid end to end from 0 to 1; the draw is ${number(draw)}` },
      rows.map((row) =>
        element("span", { class: `draw-part${row.id === step.token ? " draw-chosen" : ""}`, vars: { share: row.final }, title: `${label(row)}: ${percent(row.final)}` },
          row.final > 0.04 && label(row))),
      rest > 1e-9 && element("span", { class: "draw-part draw-rest", vars: { share: rest }, title: `survivors not shown: ${percent(rest)}` }),
      element("span", { class: "draw-needle", vars: { at: draw }, "aria-hidden": "true" }),
    ),
    element("p", { class: "draw-said" }, "draw = ", quantity(`${prefix}draw`, draw), ", between 0 and 1"),
  ];
}
