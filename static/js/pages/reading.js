/** Reading mode: the whole journey as one text, in the article's order, with this request's values in its sentences. */

import { element, swap } from "../dom.js";
import { count, plural, short } from "../format.js";
import { selectionLink } from "../links.js";
import { note, quantity } from "../parts.js";
import { explained } from "../terms.js";

/** What opens each stretch: from the request itself where it has got there. */
const OPENINGS = {
  "before the model": () => "It begins with ordinary software. Nothing in this part predicts a word.",
  "language to numbers": words,
  "inside a layer": layers,
  "next word": oneStep,
  "back to you": ({ steps }) => steps.length > 0 && `${plural(steps.length, "step")} made ${plural(steps.length, "id")}. What remains is to turn them into characters, to check those, and to bring them to your screen.`,
};

export function draw(host, context) {
  let latest = context;
  let modules = null;
  let drawn = null;
  const show = () => {
    const { response, selection, catalogue, stages } = latest;
    const key = [response?.version, ...Object.values(selection)].join();
    if (modules === null || key === drawn) return;
    drawn = key;
    if (stages.size === 0) return swap(host, note("Send a prompt: this text is about your own request, and is written while it runs."));
    swap(host, [...Map.groupBy(catalogue, ({ stretch }) => stretch)].map(([stretch, some]) => chapter(stretch, some)));
  };

  function chapter(stretch, some) {
    const told = some.filter(({ slug }) => latest.stages.has(slug));
    return told.length > 0 && element(
      "section", { class: "chapter" },
      element("h3", {}, stretch[0].toUpperCase(), stretch.slice(1)),
      element("p", { class: "chapter-opening" }, OPENINGS[stretch](latest)),
      told.map((stage) => element(
        "p", { "data-stage": stage.slug, dir: "auto" },
        selectionLink({ stage: stage.slug }, { class: "chapter-stage", "data-world": stage.world, "data-focus": `read-${stage.slug}` }, `${stage.title}.`), " ",
        explained(modules.get(stage.slug).sentence({ ...latest, stage, report: latest.stages.get(stage.slug) })),
      )),
    );
  }

  Promise.all(context.catalogue.map(async ({ slug }) => [slug, await import(`../stages/${slug}.js`)])).then((all) => {
    modules = new Map(all);
    show();
  }, (error) => {
    reportError(error);
    swap(host, element("p", { class: "notice alarm" }, "The text could not be loaded. Reload to try again."));
  });
  return {
    update(next) {
      latest = next;
      show();
    },
  };
}

function words({ stages }) {
  const data = stages.get("tokens")?.data;
  if (!data) return null;
  const [from, to] = data.user_span;
  const text = stages.get("prompt")?.data.segments.findLast(({ source }) => source === "user")?.text ?? "";
  const size = text.split(/\s+/).filter(Boolean).length;
  return [
    `A network has no letters, only numbers. Your ${plural(size, "word")} became `, quantity("user_tokens", to - from, count), ` ${to - from === 1 ? "token" : "tokens"}; with the template the model read `,
    quantity("prompt_tokens", data.num_tokens, count), ".",
  ];
}

function layers({ model, numPromptTokens }) {
  return model && `What follows happened ${plural(model.n_layers, "time")}, once in every layer, and for all ${plural(numPromptTokens, "position")} at once. Each layer reads the numbers the one before has left, and adds to them.`;
}

/** Every weight of every matrix is multiplied with one number, once, for each new token. */
function oneStep({ model }) {
  if (!model) return null;
  const { width, head_width: head, n_heads: heads, n_kv_heads: kvHeads, feed_forward_width: wide } = model;
  const ofLayer = 2 * width * heads * head + 2 * width * kvHeads * head + 3 * width * wide;
  return [
    "Only the last position says what comes next. One step multiplies and adds ",
    quantity("step_multiply_adds", model.n_layers * ofLayer + model.vocabulary * width, (value) => `${short(value / 1e6)} million`),
    " times, once for each weight of each matrix, and yields a single token. Then it all begins again, with that token at the end.",
  ];
}
