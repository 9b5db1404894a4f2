/** Stage 27: the rows that were written, and what was left out of them. */

import { element } from "../dom.js";
import { bytes, plural } from "../format.js";
import { facts, fromContext, note, quantity, sum, table } from "../parts.js";

export const uses = [];

const stored = (rows) => sum(rows.map((row) => row.num_bytes ?? 0));

export function sentence({ report: { data } }) {
  const removed = data.redacted.length > 0 ? `${plural(data.redacted.length, "thing")} removed first` : "nothing had to be removed";
  return `The answer and its record became ${plural(data.rows.length, "entry", "entries")} in the database, ${bytes(stored(data.rows))}, with ${removed}. Nothing stored here changes the model's weights.`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ report, me }) => [report, me], ({ report: { data } }) => [
    facts([["stored", quantity("stored_bytes", stored(data.rows), bytes)]]),
    table({
      name: "rows", caption: "What was stored",
      columns: [{ title: "table" }, { title: "what" }, { title: "size", numeric: true }],
      rows: data.rows.map(({ table: name, what, num_bytes }, index) => [
        element("code", {}, name), what, num_bytes === null || num_bytes === undefined ? "" : quantity(`bytes-${index}`, num_bytes, bytes),
      ]),
    }),
    data.redacted.length > 0
      ? element("ul", { class: "lines", "aria-label": "Removed before storing" }, data.redacted.map((what) => element("li", {}, `removed: ${what}`)))
      : note("Nothing was redacted."),
    data.admin_path && element("p", {}, "Staff see the record in ", element("a", { href: data.admin_path }, "the admin"), "."),
  ]);
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => {
    const sizes = data.rows.map((row) => row.num_bytes).filter((size) => size !== null && size !== undefined);
    return [note(`${sizes.map((size) => bytes(size)).join(" + ")} = ${bytes(sum(sizes))}`)];
  });
}
