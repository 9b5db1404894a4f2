/** Stage 4: scores, rules and the decision about the message. */

import { element } from "../dom.js";
import { number, plural } from "../format.js";
import { facts, heading } from "../parts.js";
import { fromReport } from "../pictures.js";
import { decision, plainLabel, rulesTable, scoresTable, strongest } from "../safety.js";

export const uses = [];

const DECISIONS = {
  allow: "let it pass", constrain: "let it pass with an added instruction", redirect: "answered with a safe redirection",
  refuse: "refused", review: "held it for a person to look at",
};

export function sentence({ report: { data } }) {
  const top = strongest(data.scores);
  const seen = top ? `A classifier gave “${plainLabel(top.label)}” its highest score, ${number(top.score, 3)}` : "No classifier ran";
  const rules = data.rules.length > 0 ? `, ${plural(data.rules.length, "rule")} matched` : "";
  const topic = data.decision === "allow" ? " A political topic is not harm by itself." : "";
  return `${seen}${rules}, and the service ${DECISIONS[data.decision]}.${topic}`;
}

export const draw = fromReport((data) => [
  facts([
    ["decision", decision(data)],
    ["why", data.reason],
    ["technique", data.technique],
    ["version", data.version],
  ]),
  scoresTable("scores", data.scores),
  rulesTable("rules", data.rules),
  data.amendment && [heading("Added to the prompt"), element("pre", { class: "code code-wrapped" }, data.amendment)],
]);

export { safetyArithmetic as arithmetic } from "../safety.js";
