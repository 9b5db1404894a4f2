/** Retrieval: whether documents were searched, and how close they came. */

import { number } from "../format.js";
import { agrees, bar, facts, field, note, quantity, table } from "../parts.js";
import { fromReport } from "../pictures.js";

export const uses = [];

const isScored = ({ best_score: score }) => typeof score === "number";

export function sentence({ report: { data } }) {
  if (!data.enabled) return "No documents were searched for this request: the model answers from its weights and the prompt alone.";
  const best = isScored(data) ? ` The closest scored ${number(data.best_score, 3)}.` : "";
  return `Your message was compared with documents by the angle between vectors.${best} ${data.reason}`;
}

export const draw = fromReport((data) => [
  facts([
    ["searched", data.enabled ? "yes" : "no"],
    ["reason", data.reason],
    ["best score", isScored(data) ? field(data, "best_score") : null],
  ]),
  data.candidates?.length > 0 && table({
    name: "candidates", caption: "Candidates by cosine similarity, −1 to 1", columns: ["document", "score"],
    rows: data.candidates.map((candidate) => [
      candidate.title ?? candidate.text ?? candidate.id, bar(candidate.score, quantity("score", candidate.score)),
    ]),
  }),
]);

export const arithmetic = fromReport((data) => {
  const scores = (data.candidates ?? []).map((candidate) => candidate.score);
  if (scores.length === 0) return note("Nothing was compared, so there is nothing to recompute.");
  return [note("The best score is the largest of the list:"), agrees("best_score", Math.max(...scores), data.best_score)];
});
