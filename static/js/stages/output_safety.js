/** Stage 25: the windows of the answer that were checked, and what was held back. */

import { element } from "../dom.js";
import { count, number, plural } from "../format.js";
import { facts, field, fold, table } from "../parts.js";
import { fromReport } from "../pictures.js";
import { decision, placeOf, plainLabel, rulesTable, scoresTable, strongest } from "../safety.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const withheld = data.num_characters_withheld > 0 ? `back ${plural(data.num_characters_withheld, "character")}` : "nothing back";
  return `While the answer grew the service checked ${plural(data.windows.length, "stretch", "stretches")} of it before letting any text out, and held ${withheld}.`;
}

export const draw = fromReport((data, { response }) => {
  const characters = [...response.text];
  return [
    facts([
      ["decision", decision(data)],
      ["released", [field(data, "num_characters_released", count), " characters"]],
      ["withheld", [field(data, "num_characters_withheld", count), " characters"]],
      ["technique", data.technique],
      ["version", data.version],
    ]),
    table({
      name: "windows", caption: "Windows, in order", columns: ["characters", "text", "highest score", "decision", "why"],
      rows: data.windows.map((window) => {
        const top = strongest(window.scores);
        return {
          class: window.decision === "allow" ? "" : "row-alarm",
          cells: [
            `${count(window.start)} to ${count(window.end)}`,
            element("bdi", { class: "released" }, characters.slice(window.start, window.end).join("")),
            top && `${plainLabel(top.label)} ${number(top.score, 3)}`,
            window.decision, window.reason,
          ],
        };
      }),
    }),
    element("div", { class: "lines" }, data.windows.map((window, index) => (window.scores.length > 0 || window.rules.length > 0) &&
      fold(`window-${index}`, `All scores of ${placeOf(window)}`, () =>
        [scoresTable(`window-${index}`, window.scores), rulesTable(`rules-${index}`, window.rules)]))),
  ];
}, ({ response }) => [response.text]);

export { safetyArithmetic as arithmetic } from "../safety.js";
