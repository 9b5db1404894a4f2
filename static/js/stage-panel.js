/**
 * The frame around a stage: the same four parts everywhere (sentence, input → operation → output, picture,
 * arithmetic), filled from the catalogue, the stage's event and the stage's own module (stages/<slug>.js).
 *
 * A stage that was not reached says so here; its module is only asked to draw when there are values.
 */

import { createToggle } from "./breakpoints.js";
import { contextOf, followState } from "./context.js";
import { element, setText } from "./dom.js";
import { duration, number, plural } from "./format.js";
import { iconButton } from "./icons.js";
import { selectionLink } from "./links.js";
import { facts } from "./parts.js";
import { createPickers } from "./pickers.js";
import { isActive } from "./record.js";
import { get } from "./store.js";
import { select } from "./selection.js";
import { onSwipe } from "./swipe.js";
import { explained } from "./terms.js";

const OF_FIRST_STEP = new Set(["logits", "sampling"]); // what they say and took is of the first token
const PROVENANCE = {
  live: "live: sent by the run itself",
  derived: "derived from what the run recorded",
  rebuilt: "recomputed from the stored tokens: the recording was no longer held",
};

/** Mount the panel; `catalogue` is the list of stages in order. */
export function mountStagePanel(host, catalogue) {
  const bySlug = new Map(catalogue.map((stage) => [stage.slug, stage]));
  let frame = null;

  const refresh = () => {
    const state = get();
    host.hidden = state.selection.page !== null;
    if (host.hidden) return;
    const stage = bySlug.get(state.selection.stage);
    if (frame?.stage !== stage) {
      frame?.destroy();
      frame = createFrame(stage, catalogue);
      host.replaceChildren(frame.node);
      host.scrollTop = 0;
    }
    const own = { stage, report: state.stages.get(stage.slug) ?? null };
    frame.update(contextOf(state, own, frame.noteProvenance));
  };

  onSwipe(host, (by) => {
    const next = catalogue[catalogue.indexOf(frame.stage) + by];
    if (next !== undefined) select({ stage: next.slug });
  });
  followState(refresh);
}

function createFrame(stage, catalogue) {
  const index = catalogue.indexOf(stage);
  const next = catalogue[index + 1];
  const parts = {
    sentence: element("p", { class: "stage-sentence", dir: "auto" }),
    state: element("p", { class: "stage-state" }),
    input: element("div", { dir: "auto" }),
    operation: element("div", { dir: "auto" }),
    output: element("div", { dir: "auto" }),
    scope: element("p", { class: "stage-scope" }),
    time: element("span", { class: "stage-time" }),
    provenance: element("span", { class: "stage-provenance" }),
    picture: element("div", { class: "stage-picture" }),
    reading: element("p", { class: "note", hidden: true }, stage.reading),
    arithmetic: element("div", { class: "stage-arithmetic" }),
  };
  const pickers = createPickers();
  const hold = createToggle("Hold the next request after this stage", () => stage.slug);
  const fold = element(
    "details",
    { class: "stage-fold", hidden: true },
    element("summary", {}, "The arithmetic, recomputed in your browser"),
    parts.arithmetic,
  );
  const node = element(
    "article",
    { class: "stage", id: `stage-${stage.slug}`, "data-world": stage.world, "aria-labelledby": "stage-title" },
    heading(stage, catalogue[index - 1], next, hold.node),
    parts.sentence,
    parts.state,
    parts.scope,
    facts([["in", parts.input], ["operation", parts.operation], ["out", parts.output]], "stage-flow"),
    element("p", { class: "stage-meta" }, parts.time, parts.provenance),
    pickers.node,
    parts.picture,
    parts.reading,
    fold,
    foot(stage),
    next && selectionLink({ stage: next.slug }, { class: "button stage-next" }, `Next: ${next.title} →`),
  );
  let module = null;
  let context = null;
  let drawings = null; // {picture, arithmetic} once drawn
  let gone = false;

  import(`./stages/${stage.slug}.js`).then(
    (loaded) => {
      module = loaded;
      if (!gone && context !== null) render();
    },
    (error) => {
      reportError(error);
      if (!gone) parts.picture.replaceChildren(element("p", { class: "notice alarm" }, "This stage's picture could not be loaded. Reload the page to try again."));
    },
  );

  function render() {
    const { report } = context;
    hold.refresh();
    const state = stageState(context, catalogue);
    node.dataset.state = state.name;
    setText(parts.state, state.text);
    parts.state.hidden = state.text === "";
    node.classList.toggle("stage-unreached", report === null);
    setText(parts.input, report?.input ?? stage.input);
    setText(parts.operation, report?.operation ?? stage.operation);
    setText(parts.output, ownOutput() ?? report?.output ?? stage.output);
    setText(parts.scope, scopeOf(report));
    setText(parts.time, timeOf(report));
    if (module === null) return;
    const hasValues = report !== null && !lacksModel(context);
    parts.sentence.hidden = !hasValues;
    parts.reading.hidden = !hasValues || stage.reading === "";
    pickers.update(hasValues ? module.uses : [], context);
    if (!hasValues) {
      erase();
      return;
    }
    guard(() => say(module.sentence(context)));
    if (drawings === null) draw();
    else guard(() => { drawings.picture?.update(context); if (fold.open) drawings.arithmetic?.update(context); });
  }

  function say(sentence) {
    if (parts.sentence.textContent !== sentence) parts.sentence.replaceChildren(...explained(sentence));
  }

  /** The report speaks of the first step; a module that knows every step speaks of the selected one. */
  function ownOutput() {
    return context.report === null || lacksModel(context) ? null : (module?.output?.(context) ?? null);
  }

  function draw() {
    drawings = { picture: null, arithmetic: null };
    guard(() => { drawings.picture = module.draw(parts.picture, context); });
    fold.hidden = module.arithmetic === undefined;
    if (fold.open) drawArithmetic();
  }

  function drawArithmetic() {
    if (drawings === null || !module.arithmetic) return;
    guard(() => {
      if (drawings.arithmetic === null) drawings.arithmetic = module.arithmetic(parts.arithmetic, context);
      else drawings.arithmetic.update(context);
    });
  }
  fold.addEventListener("toggle", () => fold.open && drawArithmetic());

  function erase() {
    drawings?.picture?.destroy();
    drawings?.arithmetic?.destroy();
    drawings = null;
    parts.picture.replaceChildren();
    parts.arithmetic.replaceChildren();
    fold.hidden = true;
    setText(parts.provenance, "");
  }

  return {
    node,
    stage,
    update(next) {
      if (context !== null && context.response !== next.response) erase();
      context = next;
      render();
      if (next.report !== null && parts.provenance.textContent === "") setText(parts.provenance, PROVENANCE.live);
    },
    noteProvenance(info) {
      if (gone || !(info.provenance in PROVENANCE)) return;
      const { num_compared: compared, largest_difference: difference } = info.agreement ?? { num_compared: 0 };
      const agreement = compared > 0 ? `; its ${plural(compared, "log-probability", "log-probabilities")} lie within ${number(difference, 3)} of the recorded ones` : "";
      setText(parts.provenance, `${PROVENANCE[info.provenance]}, within ${number(info.exactness.tolerance)} (${info.exactness.kernel})${agreement}`);
    },
    destroy() {
      gone = true;
      erase();
    },
  };
}

/** A stage's own fault must not take the frame with it. */
function guard(action) {
  try {
    action();
  } catch (error) {
    reportError(error);
  }
}

function heading(stage, previous, next, hold) {
  const go = (target, name, label) =>
    iconButton(name, target ? `${label}: ${target.title}` : label, {
      disabled: target === undefined,
      onclick: () => select({ stage: target.slug }),
    });
  return element(
    "header",
    { class: "stage-heading" },
    element("span", { class: "station-mark", "data-world": stage.world, "aria-hidden": "true" }, stage.number ?? "R"),
    element("h2", { id: "stage-title" }, stage.title),
    element("span", { class: "world-tag", "data-world": stage.world }, stage.world),
    element("span", { class: "soft stage-llm" }, `LLM started: ${stage.llm_started ? "yes" : "no"}`),
    element("span", { class: "stage-go" }, hold, go(previous, "back", "Previous stage"), go(next, "forward", "Next stage")),
  );
}

function foot({ not_shown: notShown, concept, subject, failures, metric }) {
  return element(
    "footer",
    { class: "stage-facts" },
    element("p", { class: "stage-not-shown" }, element("strong", {}, "What this does not show. "), notShown),
    facts([["Concept", concept], ["Field", subject], ["Can fail by", failures.join("; ")], ["Metric", metric]], null),
  );
}

/** Whether a stage inside the model would have to speak of a model that no worker has loaded yet. */
function lacksModel({ stage, model }) {
  return stage.world === "model" && model === null;
}

/** What the frame says about a stage beside its values. */
function stageState(context, catalogue) {
  const { report, response, stages } = context;
  if (report?.outcome === "ended_here") return { name: "ended", text: response?.error?.message ?? "The request ended at this stage." };
  if (report?.outcome === "skipped") return { name: "skipped", text: "Skipped for this request." };
  if (report !== null && lacksModel(context)) return { name: "waiting", text: "The model is still being loaded: its values come when it is there." };
  if (report !== null) return { name: "done", text: "" };
  if (response === null) return { name: "waiting", text: "Send a prompt, and this fills with its values." };
  if (isActive(response)) return { name: "waiting", text: "Not finished yet: its values come when it has run." };
  const end = [...stages.values()].find((event) => event.outcome === "ended_here");
  if (end) return { name: "skipped", text: `Never reached: the request ended at “${catalogue.find(({ slug }) => slug === end.stage)?.title ?? end.stage}”.` };
  if (response.finishReason === "cancelled") return { name: "skipped", text: "Never reached: the request was stopped before." };
  return { name: "skipped", text: "Not recorded for this response." };
}

/** Layers and positions of the run that input → operation → output and the time are about, where it is the prompt's. */
function scopeOf(report) {
  const positions = report?.data?.positions;
  if (!positions || !report.data.layers) return "";
  const layers = report.data.layers > 1 ? ` in each of ${report.data.layers} layers` : "";
  return `While the prompt was read, ${plural(positions, "position")} at once${layers}:`;
}

/** How long a stage took, in words. */
export function timeOf(report) {
  if (report === null) return "";
  if (!report.duration_ms) return "time not measured on its own";
  return `took ${duration(report.duration_ms)}${OF_FIRST_STEP.has(report.stage) ? " at step 0" : ""}`;
}
