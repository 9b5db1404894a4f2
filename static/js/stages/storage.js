/** Stage 27: the rows that were written, and what was left out of them. */

import { element } from "../dom.js";
import { bytes, plural } from "../format.js";
import { facts, note, quantity, sum, table } from "../parts.js";
import { fromReport } from "../pictures.js";

export const uses = [];

const sizesOf = (rows) => rows.map((row) => row.num_bytes).filter((size) => typeof size === "number");

export function sentence({ report: { data } }) {
  const removed = data.redacted.length > 0 ? `${plural(data.redacted.length, "thing")} removed first` : "nothing had to be removed";
  return `The answer and its record became ${plural(data.rows.length, "entry", "entries")} in the database, ${bytes(sum(sizesOf(data.rows)))}, with ${removed}. Nothing stored here changes the model's weights.`;
}

export const draw = fromReport((data) => [
  facts([["stored", quantity("stored_bytes", sum(sizesOf(data.rows)), bytes)]]),
  table({
    name: "rows", caption: "What was stored", columns: ["table", "what", "#size"],
    rows: data.rows.map(({ table: name, what, num_bytes: size }, index) => [
      element("code", {}, name), what, typeof size === "number" && quantity(`bytes-${index}`, size, bytes),
    ]),
  }),
  data.redacted.length > 0
    ? element("ul", { class: "lines", "aria-label": "Removed before storing" }, data.redacted.map((what) => element("li", {}, `removed: ${what}`)))
    : note("Nothing was redacted."),
  data.admin_path && element("p", {}, "Staff see the record in ", element("a", { href: data.admin_path }, "the admin"), "."),
]);

export const arithmetic = fromReport(({ rows }) =>
  note(`${sizesOf(rows).map((size) => bytes(size)).join(" + ")} = ${bytes(sum(sizesOf(rows)))}`));
