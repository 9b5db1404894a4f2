/** Stage 4: scores, rules and the decision about the message. */

import { element } from "../dom.js";
import { number } from "../format.js";
import { facts, fromContext, heading, note } from "../parts.js";
import { plainLabel, rulesTable, scoresTable } from "../safety.js";

export const uses = [];

const DECISIONS = {
  allow: "let it pass", constrain: "let it pass with an added instruction", redirect: "answered with a safe redirection",
  refuse: "refused", review: "held it for a person to look at",
};

export function sentence({ report: { data } }) {
  const [top] = [...data.scores].sort((a, b) => b.score - a.score);
  const seen = top ? `A classifier gave “${plainLabel(top.label)}” its highest score, ${number(top.score, 3)}` : "No classifier ran";
  const rules = data.rules.length > 0 ? `, ${data.rules.length} rule${data.rules.length > 1 ? "s" : ""} matched` : "";
  const topic = data.decision === "allow" ? " A political topic is not harm by itself." : "";
  return `${seen}${rules}, and the service ${DECISIONS[data.decision]}.${topic}`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => [
    facts([
      ["decision", element("strong", { "data-name": "decision", "data-value": data.decision, class: `decision decision-${data.decision}` }, data.decision)],
      ["why", data.reason],
      ["technique", data.technique],
      ["version", data.version],
    ]),
    scoresTable("scores", data.scores),
    rulesTable("rules", data.rules),
    data.amendment && [heading("Added to the prompt"), element("pre", { class: "code code-wrapped" }, data.amendment)],
    note("These scores come from a trained classifier or a rule, as named above. Seen from outside, a score does not tell which technique made it."),
  ]);
}

export { safetyArithmetic as arithmetic } from "../safety.js";
