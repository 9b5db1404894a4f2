/** Same word, other meaning: one token in two prompts, both run for real; equal rows, states that drift apart. */

import { lines } from "../charts.js";
import { button, element, swap } from "../dom.js";
import { count } from "../format.js";
import { agrees, facts, heading, note, quantity, table } from "../parts.js";
import { keptCharts } from "../pictures.js";
import { isActive } from "../record.js";
import { sourceOf } from "../source.js";
import { subscribe } from "../store.js";
import { chip, label } from "../tokens.js";

const PAIRS = {
  "another sense": ["They walked along the bank of the river", "She opened an account at the bank"],
  "another order": ["The dog chases the cat", "The cat chases the dog"],
};

const COMMON = new Set(["the", "a", "an", "of", "to", "on", "in", "and", "is"]);

export function draw(host, { ask, model }) {
  if (!ask) {
    host.append(note("Two prompts have to be run for this, which a page that can only be read cannot do."));
    return {};
  }
  const fields = [0, 1].map((index) => element("input", { type: "text", dir: "auto", maxlength: 500, "aria-label": `Sentence ${index + 1}`, required: true }));
  const fill = (name) => fields.forEach((field, index) => (field.value = PAIRS[name][index]));
  const said = element("p", { role: "status" });
  const body = element("div", { class: "stage-picture" });
  const charts = keptCharts();
  let records = []; // of the two requests under way
  host.append(
    note("Two sentences that share a word go through the model, as two requests of their own (two answers of your limit), which read the prompt and make one token each. Then that word's state is compared layer by layer."),
    element(
      "form", { class: "meaning-form", onsubmit: (event) => { event.preventDefault(); run(); } },
      fields,
      element("span", { class: "dialog-actions" }, Object.keys(PAIRS).map((name) => button(name, () => fill(name))), element("button", { type: "submit", class: "primary" }, "Run both")),
    ),
    said, body,
  );
  fill("another sense");

  function run() {
    said.textContent = "Both run…";
    records = fields.map(({ value }) => ask(value));
    proceed();
  }

  const stop = subscribe(["records"], proceed);

  async function proceed() {
    const mine = records;
    if (mine.length === 0 || mine.some(isActive)) return;
    records = [];
    const failed = mine.find(({ numPromptTokens }) => numPromptTokens === 0);
    const shared = failed ? null : sharedToken(mine);
    if (!shared) {
      said.textContent = failed ? `It was not run: ${failed.error?.message ?? (failed.finishReason === "refusal" ? "input safety declined it." : failed.status)}` : "The two sentences share no token. A word at the beginning and one behind a space are two tokens.";
      return;
    }
    try {
      const [{ position }, other] = shared;
      const view = await sourceOf(mine[0]).view("contextual", { position, other: mine[1].id, other_position: other.position });
      const rows = await Promise.all(mine.map((record, index) => sourceOf(record).view("embeddings", { position: shared[index].position, top: 1 })));
      said.textContent = "";
      swap(body, nodes(shared, mine, view, rows));
    } catch (error) {
      said.textContent = `This could not be read: ${error.message}`;
    }
  }

  function nodes([one, other], [first, second], { tensors }, rows) {
    const cosines = Array.from(tensors.cosines.data);
    const place = (token, record) => [chip(token, { note: `position ${token.position} of ${record.numPromptTokens}` })];
    const [row, otherRow] = rows.map(({ tensors: { row: { data } } }) => data);
    const largest = row.reduce((most, value, index) => Math.max(most, Math.abs(value - otherRow[index])), 0);
    return [
      facts([
        ["in the first", place(one, first)], ["in the second", place(other, second)],
        ["largest difference of their rows in the table", quantity("row-difference", largest)],
        ["cosine before layer 0", quantity("cosine-first", cosines[0])], ["after the last layer", quantity("cosine-last", cosines.at(-1))],
      ]),
      heading(`How alike the two states of “${label(one)}” are`),
      charts.chart("meaning", lines, { series: [{ name: "cosine", values: cosines }], x: { title: "layer" }, y: { title: "cosine" } }),
      table({
        name: "meaning", caption: "State entering each layer, and leaving the last", columns: ["layer", "#cosine", "#distance", "#length, first", "#length, second"],
        rows: cosines.map((value, layer) => [layer < model.n_layers ? count(layer) : "left", quantity(`cosine-${layer}`, value), ...["distances", "norms", "other_norms"].map((name) => quantity(`${name}-${layer}`, tensors[name].data[layer]))]),
      }),
      agrees("rows-equal", largest, 0, { title: "the rows are one and the same" }),
      note("A smaller cosine says that the two contexts have been mixed in differently, other words and other places alike. It does not say which meaning was found."),
    ];
  }

  return { destroy: () => (stop(), charts.destroy()) };
}

/** The last token of the users' own text that stands in both, as [in the first, in the second]. */
function sharedToken(records) {
  const [first, second] = records.map(({ tokens }) => tokens.filter(({ source }) => source === "user"));
  const one = first.findLast(({ id, text }) => /\p{L}/u.test(text) && second.some((token) => token.id === id) && !COMMON.has(text.trim().toLowerCase()));
  return one && [one, second.findLast(({ id }) => id === one.id)];
}
