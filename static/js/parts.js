/** What pictures are built from: values, tables, bars, folds, checked arithmetic. */

import { element } from "./dom.js";
import { number } from "./format.js";
import { page } from "./page-data.js";

export { entropy, norm, softmax, sum, sumOfSizes } from "./arithmetic.js";

// ------------------------------------------------------------------------------------------------ values and tables

/** A value with its full precision kept beside what is shown. */
export function quantity(name, value, format = number) {
  return element("span", { class: "quantity", "data-name": name, "data-value": String(value) }, format(value));
}

/** The value of that name among `data`. */
export function field(data, name, format) {
  return quantity(name, data[name], format);
}

/** A paragraph for what a picture does not say by itself. */
export function note(...children) {
  return element("p", { class: "note" }, children);
}

export function heading(...children) {
  return element("h4", {}, children);
}

export function formula(...children) {
  return element("p", { class: "formula" }, children);
}

/** Pairs of a name and what it is; pairs without a value are left out. */
export function facts(pairs, kind = "facts") {
  return element(
    "dl", { class: kind },
    pairs.filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/**
 * A table in a box that scrolls by itself. `columns` are titles, with "#" before that of a column of numbers; the first
 * cell of a row is its header. A row is a list of cells, or `{cells, class, selected}`.
 */
export function table({ name, caption, columns, rows }) {
  const kinds = columns.map((title) => (title.startsWith("#") ? "number" : null));
  const body = rows.map((row) => {
    const { cells, ...attributes } = Array.isArray(row) ? { cells: row } : row;
    return element(
      "tr", { class: attributes.class, "aria-current": attributes.selected ? "true" : null },
      cells.map((cell, index) =>
        element(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: kinds[index] }, cell),
      ),
    );
  });
  return element(
    "div", { class: "titled-table" },
    element("p", { class: "table-title" }, caption), // outside, so that it stays readable when the box scrolls
    element(
      "div", { class: "table-box", tabindex: "0", role: "group", "aria-label": `${caption}, table`, "data-scroll": name, "data-focus": `table-${name}` },
      element(
        "table", { "data-table": name, "aria-label": caption },
        element("thead", {}, element("tr", {}, columns.map((title, index) =>
          element("th", { scope: "col", class: kinds[index] }, title.replace("#", ""))))),
        element("tbody", {}, body),
      ),
    ),
  );
}

/** A table that sets two things against each other, from the service's catalogue. */
export function contrast(name) {
  const { caption, sides, rows } = page.contrasts[name];
  return table({ name, caption, columns: ["", ...sides], rows });
}

/** A bar of `share` ∈ [0, 1] of its cell with its value beside it. */
export function bar(share, value, kind = "model") {
  return element(
    "span", { class: `bar bar-${kind}${share > 0 ? "" : " bar-none"}`, vars: { share: Math.max(0, Math.min(1, share)) } },
    element("span", { class: "bar-fill", "aria-hidden": "true" }), element("span", { class: "bar-value" }, value),
  );
}

/** A signed bar: from the middle to the left below zero, to the right above; `share` ∈ [−1, 1]. */
export function signedBar(share, value) {
  return bar(Math.abs(share), value, `signed ${share < 0 ? "bar-negative" : "bar-positive"}`);
}

/** Where signed bars end, in a caption. */
export function ends(most) {
  return `bars run from ${number(-most, 3)} to ${number(most, 3)}`;
}

/** One of several, by radio buttons: `options` are pairs of a title and what `onChoose` gets. */
export function choice(legend, name, options, chosen, onChoose) {
  return element(
    "fieldset", { class: "choice" }, element("legend", {}, legend),
    options.map(([title, value]) => element(
      "label", {},
      element("input", { type: "radio", name, value: title, checked: value === chosen, onchange: () => onChoose(value) }), ` ${title}`,
    )),
  );
}

/** Folded content, made when first opened. `name` keeps it open over redraws. */
export function fold(name, summary, content) {
  const box = element("details", { "data-fold": name, class: "fold" }, element("summary", {}, summary));
  box.addEventListener("toggle", () => {
    if (box.open && box.childElementCount === 1) box.append(...[content()].flat());
  });
  return box;
}

// ------------------------------------------------------------------------------------------------ checked arithmetic

const TOLERANCE = 1e-4;
const ROUNDING = 1e-6;

/**
 * The browser's own result beside the server's, with a tick where they agree within 10⁻⁴ of their size. `terms` is
 * the summed size of what was added up: where large terms cancel, 10⁻⁶ of it is rounding, not disagreement. `title`
 * says what was computed where no formula above does; `tolerance` stands in for 10⁻⁴ where the server rounds more coarsely.
 */
export function agrees(name, mine, theirs, { title, terms = 0, tolerance = TOLERANCE, format = number } = {}) {
  const good = Math.abs(mine - theirs) <= Math.max(tolerance * Math.max(Math.abs(mine), Math.abs(theirs)), ROUNDING * terms);
  return check(name, good, [
    title && `${title}: `, "recomputed here ", quantity(`${name}-recomputed`, mine, format), " · the server has ", quantity(name, theirs, format),
  ]);
}

/** What was checked, and whether it is so: `yes` or `no`. */
export function check(name, good, said, yes = "they agree", no = "they differ") {
  return element(
    "p", { class: `check ${good ? "check-good" : "check-bad"}`, "data-check": name, "data-agrees": String(good) },
    said, element("strong", {}, good ? ` ✓ ${yes}` : ` ✗ ${no}`),
  );
}
