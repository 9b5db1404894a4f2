/** What pictures of stages are built from: values, tables, bars, folds, checked arithmetic, and a picture's life. */

import { element, swap } from "./dom.js";
import { number } from "./format.js";
import { isActive } from "./record.js";

export { entropy, norm, softmax, sum, sumOfSizes } from "./arithmetic.js";

// ------------------------------------------------------------------------------------------------ values and tables

/** A value with its full precision kept beside what is shown. */
export function quantity(name, value, format = number) {
  return element("span", { class: "quantity", "data-name": name, "data-value": String(value) }, format(value));
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
export function facts(pairs) {
  return element(
    "dl", { class: "facts" },
    pairs.filter(([, value]) => value !== null && value !== undefined)
      .map(([name, value]) => element("div", {}, element("dt", {}, name), element("dd", {}, value))),
  );
}

/**
 * A table in a box that scrolls by itself. `columns` are `{title, numeric}`; the first cell of a row is its header.
 * A row is a list of cells, or `{cells, class, selected}`.
 */
export function table({ name, caption, columns, rows }) {
  const body = rows.map((row) => {
    const { cells, ...attributes } = Array.isArray(row) ? { cells: row } : row;
    return element(
      "tr", { class: attributes.class, "aria-current": attributes.selected ? "true" : null },
      cells.map((cell, index) =>
        element(index === 0 ? "th" : "td", { scope: index === 0 ? "row" : null, class: columns[index].numeric ? "number" : null }, cell),
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
        element("thead", {}, element("tr", {}, columns.map(({ title, numeric }) =>
          element("th", { scope: "col", class: numeric ? "number" : null }, title)))),
        element("tbody", {}, body),
      ),
    ),
  );
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
  const size = Math.min(1, Math.abs(share));
  return element(
    "span", { class: `bar bar-signed ${share < 0 ? "bar-negative" : "bar-positive"}${size > 0 ? "" : " bar-none"}`, vars: { share: size } },
    element("span", { class: "bar-fill", "aria-hidden": "true" }), element("span", { class: "bar-value" }, value),
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
  return element(
    "p", { class: `check ${good ? "check-good" : "check-bad"}`, "data-check": name, "data-agrees": String(good) },
    title && `${title}: `, "recomputed here ", quantity(`${name}-recomputed`, mine, format), " · the server has ", quantity(name, theirs, format),
    element("strong", {}, good ? " ✓ they agree" : " ✗ they differ"),
  );
}

// ------------------------------------------------------------------------------------------------ a picture's life

/** The token at a position; a stand-in that names the position alone where the page was not sent it (long prompts). */
export function tokenAt({ tokens, numPromptTokens, steps }, position) {
  const index = position < numPromptTokens ? position : tokens.length - steps.length + position - numPromptTokens;
  const token = tokens[index];
  return token?.position === position ? token : { position, id: null, text: "…", kind: "unknown" };
}

/** The tokens at positions `from` to `to` − 1. */
export function tokensBetween(context, from, to) {
  return Array.from({ length: to - from }, (_, index) => tokenAt(context, from + index));
}

function same(before, after) {
  return before !== null && before.length === after.length && before.every((value, index) => Object.is(value, after[index]));
}

/** A picture drawn from the context alone, again whenever one of `depends(context)` has changed. */
export function fromContext(host, context, depends, nodes) {
  let before = null;
  function update(next) {
    const now = depends(next);
    if (same(before, now)) return;
    before = now;
    swap(host, nodes(next));
  }
  update(context);
  return { update, destroy: () => host.replaceChildren() };
}

const REST_MS = 300; // between two views of an answer that is still growing

/**
 * A picture drawn from one or several views. `queries(context)` gives `{name: [slug, query]}`, or null while there is
 * nothing to ask; `show(views, context)` draws them when all have come. The old picture stays until then. A request that
 * nobody needs any more is given up, except while the answer grows: then the picture follows at its own pace.
 */
export function followViews(host, context, queries, show) {
  let latest = context;
  let settledKey = null; // of the views shown, or of the failure that was said
  let askedKey = null;
  let controller = null;
  let rest = 0;
  let restUntil = 0;
  let gone = false;
  let failure = null;

  async function ask(key, wanted) {
    askedKey = key;
    controller = new AbortController();
    const { signal } = controller;
    const late = setTimeout(() => host.classList.add("is-waiting"), 150);
    const found = await Promise.all(
      Object.entries(wanted).map(async ([name, [slug, query]]) => [name, await latest.view(slug, query, { signal })]),
    ).catch((error) => error);
    clearTimeout(late);
    if (signal.aborted || gone) return;
    host.classList.remove("is-waiting");
    controller = null;
    settledKey = key;
    restUntil = performance.now() + REST_MS;
    if (found instanceof Error) fail(found, () => ask(key, wanted));
    else {
      failure?.remove();
      host.classList.remove("is-failed");
      show(Object.fromEntries(found), latest);
    }
    update(latest);
  }

  /** Say so in the place of the picture, which stays behind it for the next views. */
  function fail(error, again) {
    failure?.remove();
    failure = element(
      "p", { class: "view-failed", role: "status" },
      error.isFinal ? error.message : [
        `This could not be read: ${error.message.replace(/[.]$/, "")}. `,
        element("button", { type: "button", onclick: again }, "Try again"),
      ],
    );
    host.classList.add("is-failed");
    host.append(failure);
  }

  function update(next) {
    latest = next;
    const wanted = queries(next);
    if (!wanted || gone) return;
    const growing = next.response !== null && isActive(next.response);
    // What failed while the answer grew is asked once more when it is there.
    const key = JSON.stringify(wanted) + (failure?.isConnected && !growing ? " finished" : "");
    if (key === settledKey || (controller && key === askedKey)) return;
    if (controller && growing) return; // asked again when this one has come
    controller?.abort(new DOMException("Outdated", "AbortError"));
    clearTimeout(rest);
    const pause = growing ? restUntil - performance.now() : 0;
    if (pause > 0) rest = setTimeout(() => update(latest), pause);
    else ask(key, wanted);
  }

  update(context);
  return {
    update,
    destroy() {
      gone = true;
      clearTimeout(rest);
      controller?.abort(new DOMException("Closed", "AbortError"));
      host.replaceChildren();
    },
  };
}

/** A picture in sections, each with a life of its own: `makers` is `{name: (host, context) => life}`. */
export function sections(host, context, makers) {
  const lives = Object.entries(makers).map(([name, make]) => {
    const box = element("section", { class: "stage-picture", "data-part": name });
    host.append(box);
    return make(box, context);
  });
  return {
    update: (next) => lives.forEach((life) => life.update(next)),
    destroy: () => (lives.forEach((life) => life.destroy()), host.replaceChildren()),
  };
}

/** A folded part of a picture: `open(box, context)` gives its life when it is first opened; it asks nothing before. */
export function foldedPart(host, context, name, summary, open) {
  let latest = context;
  let life = null;
  host.append(fold(name, summary, () => {
    const box = element("div", { class: "what-if" });
    life = open(box, latest);
    return box;
  }));
  return {
    update(next) {
      latest = next;
      life?.update(next);
    },
    destroy: () => (life?.destroy(), host.replaceChildren()),
  };
}

/** `followViews` for a picture without charts that keep state: `nodes(views, context)` replaces the old content. */
export function fromViews(host, context, queries, nodes) {
  return followViews(host, context, queries, (views, now) => swap(host, nodes(views, now)));
}

/**
 * Charts inside a picture that is otherwise replaced: `chart(name, make, spec)` gives a box whose chart is made once and
 * then only updated.
 */
export function keptCharts() {
  const charts = new Map();
  return {
    chart(name, make, spec) {
      const kept = charts.get(name);
      if (kept) {
        queueMicrotask(() => kept.life.update(spec));
        return kept.box;
      }
      const box = element("div", { class: "chart", "data-chart": name });
      const entry = { box, life: { update() {}, destroy() {} } };
      charts.set(name, entry);
      queueMicrotask(() => (entry.life = make(box, spec))); // once the box is in the page and has a width
      return box;
    },
    destroy() {
      charts.forEach(({ life }) => life.destroy());
    },
  };
}
