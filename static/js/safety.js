/** What input and output safety show alike: scores against thresholds, and rules that matched. */

import { count, number } from "./format.js";
import { element } from "./dom.js";
import { bar, note, quantity, table } from "./parts.js";
import { fromReport } from "./pictures.js";

/** A label as a person writes it. */
export function plainLabel(label) {
  return label.replaceAll("_", " ");
}

/** Which part of the answer a window holds. */
export function placeOf({ start, end }) {
  return `characters ${count(start)} to ${count(end)}`;
}

/** The decision as the picture's fact. */
export function decision({ decision: made }) {
  return element("strong", { "data-name": "decision", "data-value": made, class: `decision decision-${made}` }, made);
}

/** The highest score, if there is one. */
export function strongest(scores) {
  return scores.toSorted((a, b) => b.score - a.score).at(0);
}

const isLimited = ({ threshold }) => typeof threshold === "number";

/** Scores from 0 to 1, each with its threshold marked. */
export function scoresTable(name, scores) {
  return scores.length > 0 && table({
    name, caption: "Scores, 0 to 1, and the threshold that makes them count", columns: ["label", "score", "#threshold", "counts"],
    rows: scores.map((one) => {
      const { label, score, threshold } = one;
      const counts = isLimited(one) && score >= threshold;
      return {
        class: counts ? "row-alarm" : "",
        cells: [
          plainLabel(label), bar(score, quantity(`score-${label}`, score), "service"),
          isLimited(one) ? number(threshold) : "none", counts ? "yes" : "no",
        ],
      };
    }),
  });
}

export function rulesTable(name, rules) {
  if (rules.length === 0) return note("No rule matched.");
  return table({
    name, caption: "Rules that matched", columns: ["rule", "version", "effect", "detail"],
    rows: rules.map(({ rule, version, effect, detail }) => [rule, version, effect, detail]),
  });
}

/** Each score compared with its threshold, as a line. */
export const safetyArithmetic = fromReport((data) => {
  const windows = data.windows ?? [data];
  const scores = windows.flatMap((window) => window.scores.map((score) => ({ ...score, place: data.windows ? `${placeOf(window)}, ` : "" })))
    .filter(isLimited);
  if (scores.length === 0) return note("No score had a threshold to be compared with.");
  return element("ul", { class: "lines" }, scores.map(({ place, label, score, threshold }) =>
    element("li", {}, `${place}${plainLabel(label)}: ${number(score)} ${score >= threshold ? "≥" : "<"} ${number(threshold)}, so it ${score >= threshold ? "counts" : "does not count"}`)));
});
