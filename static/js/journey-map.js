/**
 * The journey of the request: every stage as a station on one line, in five stretches. Service stations are square,
 * model stations round; a station fills when its stage has run. Arrow keys walk the line.
 */

import { isSet, toggle } from "./breakpoints.js";
import { arrow, element, mark, setText } from "./dom.js";
import { count, number } from "./format.js";
import { link } from "./links.js";
import { isActive } from "./record.js";
import { select } from "./selection.js";
import { get, subscribe } from "./store.js";

const NARROWEST = 4; // stations' width that the longest name of a stretch needs
const HAIR = "\u200a"; // the thinnest space: neighbouring times must not touch
const STATES = { waiting: "not reached yet", held: "held here", running: "running", done: "done", skipped: "skipped", ended: "ended here" };

export function mountJourneyMap(host, catalogue, { onSelect }) {
  const stations = new Map();
  const notes = new Map(); // stretch -> what stands beside its name
  const stretches = [...Map.groupBy(catalogue, ({ stretch }) => stretch)].map(([stretch, stages]) => {
    const note = element("span", { class: "stretch-note" });
    notes.set(stretch, note);
    return element(
      "li",
      { class: "stretch", "data-stretch": stretch.replaceAll(" ", "-"), vars: { stations: Math.max(stages.length, NARROWEST) } },
      element("span", { class: "stretch-name" }, stretch, " ", note),
      element("ol", { class: "stations" }, stages.map((stage) => element("li", {}, station(stage)))),
    );
  });
  const legend = element(
    "li",
    { class: "legend", "aria-hidden": "true" },
    element("span", {}, "service"), element("span", { class: "legend-model" }, "model"),
  );
  const line = element("ol", { class: "stretches" }, stretches, legend);
  host.append(line);

  function station(stage) {
    const time = element("span", { class: "station-time" });
    const node = link(
      `#stage=${stage.slug}`, () => { select({ stage: stage.slug }); onSelect(); },
      {
        class: "station", title: stage.title, tabindex: -1,
        "data-slug": stage.slug, "data-world": stage.world, "data-state": "waiting",
      },
      element("span", { class: "station-mark", "data-world": stage.world }, stage.number ?? "R"),
      time,
    );
    stations.set(stage.slug, { node, time, stage });
    return node;
  }

  host.addEventListener("keydown", (event) => {
    const slug = event.target.dataset?.slug;
    if (slug === undefined) return;
    if (event.key === "b") toggle(slug);
    const moved = arrow(event);
    const next = moved && catalogue[catalogue.findIndex((stage) => stage.slug === slug) + moved[0] + moved[1]];
    if (!next) return;
    select({ stage: next.slug });
    stations.get(next.slug).node.focus();
  });

  let selected = null;
  subscribe(["selection"], ({ selection }) => {
    if (selection.stage === selected) return;
    if (selected !== null) setCurrent(stations.get(selected).node, false);
    selected = selection.stage;
    const { node } = stations.get(selected);
    setCurrent(node, true);
    scrollIntoLine(line, node);
  });

  host.addEventListener("contextmenu", (event) => {
    const slug = event.target.closest(".station")?.dataset.slug;
    if (slug === undefined || get().breakpoints === null) return;
    event.preventDefault();
    toggle(slug);
  });

  subscribe(["stages", "response", "breakpoints"], ({ stages, response }) => {
    const running = runningStage(catalogue, stages, response);
    for (const { node, time, stage } of stations.values()) {
      const report = stages.get(stage.slug);
      const state = stateOf(stage.slug, report, stage === running, response);
      const isBreakpoint = isSet(stage.slug);
      if (node.dataset.state !== state || node.hasAttribute("data-breakpoint") !== isBreakpoint) {
        node.dataset.state = state;
        node.toggleAttribute("data-breakpoint", isBreakpoint);
        node.setAttribute("aria-label", `${stage.number ?? ""} ${stage.title}, ${stage.world}, ${STATES[state]}${isBreakpoint ? ", breakpoint" : ""}`.trim());
      }
      setText(time, report?.duration_ms ? brief(report.duration_ms) : "");
    }
  });
  subscribe(["model"], ({ model }) => setText(notes.get("inside a layer"), model ? `× ${model.n_layers} layers` : ""));
  subscribe(["steps"], ({ steps }) => setText(notes.get("next word"), steps.length > 0 ? `↻ ${count(steps.length)}` : ""));
}

/** The stage a request is in: the first that has not reported while the response is not finished. */
function runningStage(catalogue, stages, response) {
  if (response === null || !isActive(response) || response.held !== null) return null;
  return catalogue.find(({ slug }) => !stages.has(slug)) ?? null;
}

function stateOf(slug, report, isRunning, response) {
  if (response?.held?.stage === slug) return "held";
  if (report?.outcome === "ended_here") return "ended";
  if (report?.outcome === "skipped") return "skipped";
  if (report !== undefined) return "done";
  if (isRunning) return "running";
  return response !== null && !isActive(response) && response.last > 0 ? "skipped" : "waiting";
}

/** Two digits are all that fits under a station; the stage itself has the rest. */
function brief(ms) {
  if (ms < 1) return `${number(ms * 1000, 2)}${HAIR}µs`;
  return ms < 99.5 ? `${number(ms, 2)}${HAIR}ms` : `${number(ms / 1000, 2)}${HAIR}s`;
}

function setCurrent(node, isSelected) {
  mark(node, "aria-current", isSelected && "true");
  node.tabIndex = isSelected ? 0 : -1;
}

/** On a narrow screen the line scrolls sideways: bring the station to its middle without moving the page. */
function scrollIntoLine(line, node) {
  if (line.scrollWidth <= line.clientWidth) return;
  const place = node.getBoundingClientRect();
  const frame = line.getBoundingClientRect();
  line.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
}
