/** Stage 3: the text the model really reads, by segment. */

import { element } from "../dom.js";
import { count, percent, plural } from "../format.js";
import { agrees, facts, field, fold, note, quantity, sum, table } from "../parts.js";
import { fromReport } from "../pictures.js";
import { chips } from "../tokens.js";

export const uses = [];

const NAMES = {
  template: "added by the template", system: "system instructions", developer: "developer instructions", tool: "tool result",
  history: "earlier messages", retrieved: "retrieved documents", user: "your message", constraint: "added by input safety",
  marker: "role markers",
};

function bySource(segments) {
  const totals = new Map();
  for (const { source, num_tokens } of segments) totals.set(source, (totals.get(source) ?? 0) + num_tokens);
  return totals;
}

export function sentence({ report: { data } }) {
  const totals = bySource(data.segments);
  const others = [...totals.keys()].filter((source) => source !== "user").map((source) => NAMES[source]).join(", ");
  const dropped = data.dropped.length > 0 ? ` ${plural(data.dropped.length, "older message")} had to be left out.` : "";
  return `Your message is ${plural(totals.get("user") ?? 0, "token")} of the ${count(data.num_tokens)} the model reads; the rest: ${others}.${dropped}`;
}

export const draw = fromReport((data, { tokens }) => {
  let position = 0;
  const placed = data.segments.map((segment) => {
    const from = position;
    position += segment.num_tokens;
    return { ...segment, from };
  });
  return [
    facts([
      ["prompt", [field(data, "num_tokens", count), " tokens"]],
      ["context window", [field(data, "context_length", count), " tokens"]],
      ["room for the answer", [field(data, "room_for_answer", count), " tokens"]],
    ]),
    element(
      "div", { class: "shares", role: "img", "aria-label": "Shares of the prompt by source; the table has the numbers" },
      placed.filter(({ num_tokens }) => num_tokens > 0).map(({ source, num_tokens }) =>
        element("span", { class: "share", "data-source": source, vars: { tokens: num_tokens }, title: `${NAMES[source]}: ${plural(num_tokens, "token")}` })),
    ),
    table({
      name: "sources", caption: "Tokens by source", columns: ["source", "#tokens", "#share"],
      rows: [...bySource(data.segments)].map(([source, tokensOf]) => [
        [element("span", { class: "swatch", "data-source": source, "aria-hidden": "true" }), ` ${NAMES[source]}`],
        quantity(`tokens-${source}`, tokensOf, count), percent(tokensOf / data.num_tokens),
      ]),
    }),
    element(
      "ol", { class: "segments", "aria-label": "The prompt, in order" },
      placed.map((segment, index) => {
        const pieces = tokens.slice(segment.from, Math.min(segment.from + segment.num_tokens, data.num_tokens));
        return element(
          "li", { class: "segment", "data-source": segment.source },
          element("p", { class: "segment-head" },
            element("span", { class: "segment-source" }, NAMES[segment.source]),
            ` ${segment.role} · ${plural(segment.num_tokens, "token")}${segment.truncated ? " · text cut here" : ""}`),
          element("pre", { class: "segment-text", dir: "auto" }, segment.text),
          pieces.length > 0 && segment.num_tokens > 0 && fold(`segment-${index}`, "as tokens", () => chips(pieces)),
        );
      }),
    ),
    data.dropped.length > 0 && table({
      name: "dropped", caption: "Left out", columns: ["message", "#tokens", "why"],
      rows: data.dropped.map(({ role, num_tokens, reason }) => [role, count(num_tokens), reason]),
    }),
  ];
}, ({ report, tokens }) => [Math.min(tokens.length, report.data.num_tokens)]);

export const arithmetic = fromReport(({ segments, num_tokens: served }) => [
  note(`${segments.map(({ num_tokens }) => count(num_tokens)).join(" + ")} tokens:`),
  agrees("prompt-tokens", sum(segments.map(({ num_tokens }) => num_tokens)), served, { format: count }),
]);
