/** Stage 25: the windows of the answer that were checked, and what was held back. */

import { element } from "../dom.js";
import { count, number, plural } from "../format.js";
import { facts, fold, fromContext, note, quantity, table } from "../parts.js";
import { placeOf, plainLabel, rulesTable, scoresTable } from "../safety.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const withheld = data.num_characters_withheld > 0
    ? `, and held back ${plural(data.num_characters_withheld, "character")}` : ", and held nothing back";
  return `While the answer grew the service checked ${plural(data.windows.length, "stretch", "stretches")} of it before letting any text out${withheld}.`;
}

function strongest({ scores }) {
  return [...scores].sort((a, b) => b.score - a.score)[0];
}

export function draw(host, context) {
  return fromContext(host, context, ({ report, response }) => [report, response?.text], ({ report: { data }, response }) => {
    const characters = [...(response?.text ?? "")];
    return [
      facts([
        ["decision", element("strong", { class: `decision decision-${data.decision}`, "data-name": "decision", "data-value": data.decision }, data.decision)],
        ["released", [quantity("num_characters_released", data.num_characters_released, count), " characters"]],
        ["withheld", [quantity("num_characters_withheld", data.num_characters_withheld, count), " characters"]],
        ["technique", data.technique],
        ["version", data.version],
      ]),
      table({
        name: "windows", caption: "Windows, in order",
        columns: [{ title: "characters" }, { title: "text" }, { title: "highest score" }, { title: "decision" }, { title: "why" }],
        rows: data.windows.map((window) => ({
          class: window.decision === "allow" ? "" : "row-alarm",
          cells: [
            `${count(window.start)} to ${count(window.end)}`,
            element("bdi", { class: "released" }, characters.slice(window.start, window.end).join("")),
            window.scores.length > 0 ? `${plainLabel(strongest(window).label)} ${number(strongest(window).score, 3)}` : "",
            window.decision, window.reason,
          ],
        })),
      }),
      element("div", { class: "lines" }, data.windows.map((window, index) => (window.scores.length > 0 || window.rules.length > 0) &&
        fold(`window-${index}`, `All scores of ${placeOf(window)}`, () =>
          [scoresTable(`window-${index}`, window.scores), rulesTable(`rules-${index}`, window.rules)]))),
      note("Text and trace of a stretch are sent only when it has been let through."),
    ];
  });
}

export { safetyArithmetic as arithmetic } from "../safety.js";
