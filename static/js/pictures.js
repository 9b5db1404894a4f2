/**
 * Pictures: what stages and pages draw, and when they draw it again.
 *
 * A picture is a function `(host, context) → {update(context), destroy()}`; whoever opened it empties the host after
 * it. `nodes(…)` gives what stands in the host; its last argument, `chart(name, make, spec)`, gives a box with a chart
 * that is made once and then only updated.
 */

import { button, element, swap } from "./dom.js";
import { fold, note } from "./parts.js";
import { isActive } from "./record.js";

const REST_MS = 300; // between two views of an answer that is still growing

/** `nodes(context, chart)`, again whenever one of `depends(context)` has changed. */
export function fromContext(depends, nodes) {
  return (host, context) => {
    const charts = keptCharts();
    let before = null;
    function update(next) {
      const now = depends(next);
      if (before !== null && now.every((value, index) => Object.is(value, before[index]))) return;
      before = now;
      swap(host, nodes(next, charts.chart));
    }
    update(context);
    return { update, destroy: charts.destroy };
  };
}

/** `nodes(data, context, chart)` of the stage's report, again when one of `also(context)` has changed. */
export function fromReport(nodes, also = () => []) {
  return fromContext(
    (context) => [context.report, ...also(context)],
    (context, chart) => nodes(context.report.data, context, chart),
  );
}

/** `nodes(step, context)` of the chosen step. */
export function fromStep(nodes) {
  return fromContext(
    ({ step }) => [step],
    (context) => (context.step ? nodes(context.step, context) : note("The first step's numbers come with its token.")),
  );
}

/**
 * `show(views, context)` when the views of `queries(context)` have come: `{name: [slug, query]}`, or null while there is
 * nothing to ask; again when another layer, head, position or key is chosen. The old picture stays until then. A
 * request that nobody needs any more is given up, except while the answer grows: then the picture follows at its own
 * pace. `update()` looks again, `redraw()` shows the same views.
 */
export function followViews(queries, show) {
  return (host, context) => {
    let latest = context;
    let settledKey = null; // of the views shown, or of the failure that was said
    let askedKey = null;
    let controller = null;
    let rest = 0;
    let restUntil = 0;
    let gone = false;
    let failure = null;
    let views = null; // null after a failure
    let place = null; // the selection they were shown with

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
      failure?.remove();
      views = found instanceof Error ? null : Object.fromEntries(found);
      host.classList.toggle("is-failed", views === null);
      if (views === null) fail(found, () => ask(key, wanted));
      else redraw();
      update();
    }

    function redraw() {
      if (views === null) return;
      place = placeOf(latest);
      show(views, latest);
    }

    /** Say so in the place of the picture, which stays behind it for the next views. */
    function fail(error, again) {
      failure = element(
        "p", { class: "view-failed", role: "status" },
        error.isFinal ? error.message : [
          `This could not be read: ${error.message.replace(/[.]$/, "")}. `,
          button("Try again", again),
        ],
      );
      host.append(failure);
    }

    function update(next = latest) {
      latest = next;
      const wanted = queries(next);
      if (!wanted || gone) return;
      const growing = next.response !== null && isActive(next.response);
      // What failed while the answer grew is asked once more when it is there.
      const key = JSON.stringify(wanted) + (failure?.isConnected && !growing ? " finished" : "");
      if (key === settledKey && place !== placeOf(next)) redraw();
      if (key === settledKey || (controller && key === askedKey)) return;
      if (controller && growing) return; // asked again when this one has come
      controller?.abort(new DOMException("Outdated", "AbortError"));
      clearTimeout(rest);
      const pause = growing ? restUntil - performance.now() : 0;
      if (pause > 0) rest = setTimeout(update, pause);
      else ask(key, wanted);
    }

    update();
    return {
      update,
      redraw,
      destroy() {
        gone = true;
        clearTimeout(rest);
        controller?.abort(new DOMException("Closed", "AbortError"));
      },
    };
  };
}

const placeOf = ({ selection: { layer, head, position, key } }) => [layer, head, position, key].join();

/** `nodes(views, context, chart)` of several views; see `followViews`. */
export function fromViews(queries, nodes) {
  return (host, context) => {
    const charts = keptCharts();
    const life = followViews(queries, (views, now) => swap(host, nodes(views, now, charts.chart)))(host, context);
    return { ...life, destroy: () => (charts.destroy(), life.destroy()) };
  };
}

/** `nodes(view, context, chart)` of one view at the chosen `fields` of the selection, with the query's `more(context)`. */
export function fromView(slug, fields, nodes, more = () => ({})) {
  return fromViews(
    (context) => {
      const query = Object.fromEntries(fields.map((name) => [name, context.selection[name]]));
      return Object.values(query).includes(null) ? null : { view: [slug, { ...query, ...more(context) }] };
    },
    ({ view }, context, chart) => nodes(view, context, chart),
  );
}

/** Several pictures below each other: `{name: picture}`. */
export function sections(pictures) {
  return (host, context) => {
    const lives = Object.entries(pictures).map(([name, picture]) => {
      const box = element("section", { class: "stage-picture", "data-part": name });
      host.append(box);
      return picture(box, context);
    });
    return {
      update: (next) => lives.forEach((life) => life.update(next)),
      destroy: () => lives.forEach((life) => life.destroy()),
    };
  };
}

/** A picture that is opened when its fold is; it asks nothing before. */
export function folded(name, summary, picture) {
  return (host, context) => {
    let latest = context;
    let life = null;
    host.append(fold(name, summary, () => {
      const box = element("div", { class: "what-if" });
      life = picture(box, latest);
      return box;
    }));
    return {
      update(next) {
        latest = next;
        life?.update(next);
      },
      destroy: () => life?.destroy(),
    };
  };
}

/**
 * A slider over the numbers 0 to `size(context)` − 1 above `picture(chosen)`, which is drawn again for every number;
 * `chosen()` is the one it stands at, and `said(number)` tells of it.
 */
export function slider({ name, title = name, size, start = 0, said = String }, picture) {
  return (host, context) => {
    const output = element("output", {}, said(start));
    const input = element("input", {
      type: "range", min: 0, max: size(context) - 1, value: start, "aria-label": title,
      oninput() {
        output.textContent = said(input.valueAsNumber);
        life.redraw();
      },
    });
    const content = element("div", { class: "stage-picture" });
    host.append(element("label", { class: "slider-row" }, element("span", { class: "picker-name" }, name), input, output), content);
    const life = picture(() => input.valueAsNumber)(content, context);
    return life;
  };
}

/** Charts that outlive the nodes around them: `chart(name, make, spec)` gives a box whose chart is made once. */
export function keptCharts() {
  const charts = new Map();
  return {
    chart(name, make, spec) {
      const kept = charts.get(name);
      if (kept) {
        queueMicrotask(() => kept.life.update(spec));
        return kept.box;
      }
      const entry = { box: element("div", { class: "chart", "data-chart": name }), life: null };
      charts.set(name, entry);
      queueMicrotask(() => (entry.life = make(entry.box, spec))); // once the box is in the page and has a width
      return entry.box;
    },
    destroy: () => charts.forEach(({ life }) => life?.destroy()),
  };
}
