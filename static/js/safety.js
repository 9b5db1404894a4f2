/** What input and output safety show alike: scores against thresholds, and rules that matched. */

import { count, number } from "./format.js";
import { bar, fromContext, note, quantity, table } from "./parts.js";
import { element } from "./dom.js";

/** A label as a person writes it. */
export function plainLabel(label) {
  return label.replaceAll("_", " ");
}

/** Which part of the answer a window holds. */
export function placeOf({ start, end }) {
  return `characters ${count(start)} to ${count(end)}`;
}

/** Scores from 0 to 1, each with its threshold marked. */
export function scoresTable(name, scores) {
  return scores.length > 0 && table({
    name, caption: "Scores, 0 to 1, and the threshold that makes them count",
    columns: [{ title: "label" }, { title: "score" }, { title: "threshold", numeric: true }, { title: "counts" }],
    rows: scores.map(({ label, score, threshold }) => {
      const counts = threshold !== null && threshold !== undefined && score >= threshold;
      return {
        class: counts ? "row-alarm" : "",
        cells: [
          plainLabel(label), bar(score, quantity(`score-${label}`, score), "service"),
          threshold === null || threshold === undefined ? "none" : number(threshold), counts ? "yes" : "no",
        ],
      };
    }),
  });
}

export function rulesTable(name, rules) {
  if (rules.length === 0) return note("No rule matched.");
  return table({
    name, caption: "Rules that matched",
    columns: [{ title: "rule" }, { title: "version" }, { title: "effect" }, { title: "detail" }],
    rows: rules.map(({ rule, version, effect, detail }) => [rule, version, effect, detail]),
  });
}

/** Each score compared with its threshold, as a line. */
export function safetyArithmetic(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => {
    const windows = data.windows ?? [data];
    const scores = windows.flatMap((window) => window.scores.map((score) => ({ ...score, place: data.windows ? `${placeOf(window)}, ` : "" })))
      .filter(({ threshold }) => threshold !== null && threshold !== undefined);
    if (scores.length === 0) return note("No score had a threshold to be compared with.");
    return element("ul", { class: "lines" }, scores.map(({ place, label, score, threshold }) =>
      element("li", {}, `${place}${plainLabel(label)}: ${number(score)} ${score >= threshold ? "≥" : "<"} ${number(threshold)}, so it ${score >= threshold ? "counts" : "does not count"}`)));
  });
}
