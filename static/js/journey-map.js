/**
 * The journey of the request: every stage as a station on one line, in five stretches. Service stations are square,
 * model stations round; a station fills when its stage has run. Arrow keys walk the line.
 */

import { isSet, toggle } from "./breakpoints.js";
import { element, setText } from "./dom.js";
import { count, number } from "./format.js";
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
    const link = element(
      "a",
      {
        class: "station", href: `#stage=${stage.slug}`, title: stage.title, tabindex: -1,
        "data-slug": stage.slug, "data-world": stage.world, "data-state": "waiting",
        onclick: (event) => {
          if (event.ctrlKey || event.metaKey || event.shiftKey) return;
          event.preventDefault();
          select({ stage: stage.slug });
          onSelect();
        },
      },
      element("span", { class: "station-mark", "data-world": stage.world }, stage.number ?? "R"),
      time,
    );
    stations.set(stage.slug, { link, time, stage });
    return link;
  }

  host.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    const slug = event.target.dataset?.slug;
    if (slug !== undefined && event.key === "b") toggle(slug);
    if (by === undefined || slug === undefined) return;
    event.preventDefault();
    const next = catalogue[catalogue.findIndex((stage) => stage.slug === slug) + by];
    if (next === undefined) return;
    select({ stage: next.slug });
    stations.get(next.slug).link.focus();
  });

  let selected = null;
  subscribe(["selection"], ({ selection }) => {
    if (selection.stage === selected) return;
    if (selected !== null) mark(stations.get(selected).link, false);
    selected = selection.stage;
    const { link } = stations.get(selected);
    mark(link, true);
    scrollIntoLine(line, link);
  });

  host.addEventListener("contextmenu", (event) => {
    const slug = event.target.closest(".station")?.dataset.slug;
    if (slug === undefined || get().breakpoints === null) return;
    event.preventDefault();
    toggle(slug);
  });

  subscribe(["stages", "response", "breakpoints"], ({ stages, response }) => {
    const running = runningStage(catalogue, stages, response);
    for (const { link, time, stage } of stations.values()) {
      const report = stages.get(stage.slug);
      const state = stateOf(stage.slug, report, stage === running, response);
      const isBreakpoint = isSet(stage.slug);
      if (link.dataset.state !== state || link.hasAttribute("data-breakpoint") !== isBreakpoint) {
        link.dataset.state = state;
        link.toggleAttribute("data-breakpoint", isBreakpoint);
        link.setAttribute("aria-label", `${stage.number ?? ""} ${stage.title}, ${stage.world}, ${STATES[state]}${isBreakpoint ? ", breakpoint" : ""}`.trim());
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

function mark(link, isSelected) {
  if (isSelected) link.setAttribute("aria-current", "true");
  else link.removeAttribute("aria-current");
  link.tabIndex = isSelected ? 0 : -1;
}

/** On a narrow screen the line scrolls sideways: bring the station to its middle without moving the page. */
function scrollIntoLine(line, link) {
  if (line.scrollWidth <= line.clientWidth) return;
  const place = link.getBoundingClientRect();
  const frame = line.getBoundingClientRect();
  line.scrollLeft += place.left - frame.left - (frame.width - place.width) / 2;
}
