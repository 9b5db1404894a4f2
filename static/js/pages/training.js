/** Where the weights came from: a real loss, gradients layer by layer, one step on a throw-away copy of this model. */

import { lines } from "../charts.js";
import { element, swap } from "../dom.js";
import { count, percent, plural, short } from "../format.js";
import { agrees, contrast, facts, field, formula, heading, note, quantity, table } from "../parts.js";
import { keptCharts } from "../pictures.js";
import { chip, label, named } from "../tokens.js";

const PATIENCE_MS = 300_000;
const PAUSE_MS = 1000;
export function draw(host, context) {
  const body = element("div", { class: "stage-picture" });
  const charts = keptCharts();
  const gone = new AbortController();
  host.append(
    note("A model is trained by showing it texts and asking, at every position, how improbable it found the token that really came. Here that is done once, with three tokens and one answer, on a copy that is thrown away."),
    body,
    contrast("training-inference"),
  );
  if (context.response?.id) learn();
  else swap(body, note("Send a prompt first: the model that answers it is the one that is copied."));

  /** The step takes as long as it takes; the service answers "busy" until it is there. */
  async function learn() {
    swap(body, element("p", { role: "status" }, "The copy is learning: this takes some seconds, and longer while others are served."));
    const until = performance.now() + PATIENCE_MS;
    while (!gone.signal.aborted) {
      try {
        return swap(body, nodes(await context.view("training", {}, { signal: gone.signal })));
      } catch (error) {
        if (gone.signal.aborted) return undefined;
        if (error.code !== "busy" || performance.now() > until) return swap(body, element("p", { class: "notice alarm" }, `It was not done: ${error.message}`));
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
      }
    }
    return undefined;
  }

  function nodes({ info, tensors }) {
    const token = (id) => named(id, info.token_texts);
    const text = info.token_ids.map((id) => token(id).text).join("");
    const target = token(info.target);
    const [before, after] = [info.loss_before, info.loss_after].map((loss) => Math.exp(-loss));
    const same = info.sha256_before === info.sha256_after;
    return [
      facts([
        ["text", `“${text}”`], ["the token to learn", chip(target)],
        ["loss before", [field(info, "loss_before"), " nats"]], ["loss after one step", [field(info, "loss_after"), " nats"]],
        ["its probability before", quantity("probability_before", before, percent)], ["after", quantity("probability_after", after, percent)],
        ["weights that were moved", field(info, "num_weights", count)],
      ]),
      formula(`loss = −ln p(“${label(target)}”) · gradient = how the loss grows with each weight · new weight = weight − ${info.learning_rate} × gradient`),
      heading("Length of the gradient in each layer"),
      charts.chart("gradients", lines, {
        series: [{ name: "attention", values: tensors.attention.data }, { name: "feed-forward", values: tensors.feed_forward.data, dashed: true }],
        x: { title: "layer" }, y: { title: "length" },
      }),
      table({
        name: "gradients", caption: `Layer by layer; that of the embedding table is ${short(info.embedding_gradient)}, of all weights together ${short(info.gradient)}`,
        columns: ["layer", "#attention", "#feed-forward"],
        rows: Array.from(tensors.attention.data, (value, layer) => [String(layer), quantity(`attention-${layer}`, value), quantity(`feed_forward-${layer}`, tensors.feed_forward.data[layer])]),
      }),
      table({
        name: "lesson", caption: "The most probable next tokens", columns: ["before", "#probability", "after", "#probability"],
        rows: info.top_before.map(([id, share], rank) => [chip(token(id)), percent(share), chip(token(info.top_after[rank][0])), percent(info.top_after[rank][1])]),
      }),
      info.top_after[0][0] === info.target && agrees("probability-after", after, info.top_after[0][1], { title: "the new probability, from the new loss", format: percent }),
      element("p", {}, "The served checkpoint's SHA-256, before and after: ", element("code", { "data-name": "sha256" }, info.sha256_after.slice(0, 16)), " ",
        element("strong", { "data-name": "sha256-same", "data-value": String(same) }, same ? "✓ unchanged" : "✗ changed")),
      note(`One step with one example moves everything towards “${label(target)}”, wherever it stands; a real training takes ${plural(1e6, "step")} or so with thousands of texts each, so that no single one decides.`),
    ];
  }

  return { destroy: () => (gone.abort(), charts.destroy()) };
}
