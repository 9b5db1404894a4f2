/** Retrieval: whether documents were searched, and how close they came. */

import { number } from "../format.js";
import { agrees, bar, facts, fromContext, note, quantity, table } from "../parts.js";

export const uses = [];

export function sentence({ report: { data } }) {
  if (!data.enabled) return "No documents were searched for this request: the model answers from its weights and the prompt alone.";
  const best = data.best_score === null || data.best_score === undefined ? "" : ` The closest scored ${number(data.best_score, 3)}.`;
  return `Your message was compared with documents by the angle between vectors.${best} ${data.reason}`;
}

export function draw(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => [
    facts([
      ["searched", data.enabled ? "yes" : "no"],
      ["reason", data.reason],
      ["best score", data.best_score === null || data.best_score === undefined ? null : quantity("best_score", data.best_score)],
    ]),
    data.candidates?.length > 0 && table({
      name: "candidates", caption: "Candidates by cosine similarity, −1 to 1",
      columns: [{ title: "document" }, { title: "score" }],
      rows: data.candidates.map((candidate) => [
        candidate.title ?? candidate.text ?? candidate.id, bar(candidate.score, quantity("score", candidate.score)),
      ]),
    }),
    note("Here, and not in attention, is where cosine similarity is at home: one vector for a whole text against another."),
  ]);
}

export function arithmetic(host, context) {
  return fromContext(host, context, ({ report }) => [report], ({ report: { data } }) => {
    const scores = (data.candidates ?? []).map((candidate) => candidate.score);
    if (scores.length === 0) return note("Nothing was compared, so there is nothing to recompute.");
    return [note("The best score is the largest of the list:"), agrees("best_score", Math.max(...scores), data.best_score)];
  });
}
