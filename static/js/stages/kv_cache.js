/** Stage 23: what was kept of earlier positions, what that saved, and that it changed nothing. */

import { button, element } from "../dom.js";
import { bytes, count, duration, percent, plural, short } from "../format.js";
import { agrees, facts, field, formula, heading, note, quantity, sum, table } from "../parts.js";
import { fromReport, fromViews, sections } from "../pictures.js";
import { chip, named } from "../tokens.js";

export const uses = [];

export function sentence({ report: { data } }) {
  const { num_prefix_tokens: prefix, rows_reused: reused, rows_computed: computed } = data;
  const known = prefix > 0 ? ` ${plural(prefix, "position")} of the prompt were known from an earlier request.` : "";
  return `Each position's keys and values were computed once, ${plural(computed, "row")} in all, and kept; later steps read such rows ${count(reused)} times instead of computing them anew.${known}`;
}

const own = fromReport((data) => [
  facts([
    ["memory", field(data, "num_bytes", bytes)],
    ["per position", quantity("bytes_per_position", data.num_bytes / (data.num_blocks * data.block_size), bytes)],
    ["blocks used", [field(data, "num_blocks", count), ` of ${count(data.num_blocks_total)}`]],
    ["rows computed", field(data, "rows_computed", count)],
    ["rows reused", field(data, "rows_reused", count)],
    ["from an earlier request", field(data, "num_prefix_tokens", count)],
    ["since the engine took it", data.events.map(([name, ms]) => `${name.replace("_", " ")} ${duration(ms)}`).join(", ")],
  ]),
  blocks(data),
  table({
    name: "phases", caption: "Two kinds of work",
    columns: ["", "prefill: reading the prompt", "decode: writing the answer"],
    rows: [
      ["positions", count(data.num_prompt_tokens - data.num_prefix_tokens), count(data.num_decode_steps)],
      ["at once", "many", "one a step"],
      ["time", field(data, "prefill_ms", duration), field(data, "decode_ms", duration)],
      ["time per position",
        each(data.prefill_ms, data.num_prompt_tokens - data.num_prefix_tokens), each(data.decode_ms, data.num_decode_steps)],
      ["read from memory", "", data.gigabytes_per_second ? field(data, "gigabytes_per_second", (rate) => `${short(rate)} GB/s`) : "–"],
    ],
  }),
  note("A later token depends on all earlier ones, so decode goes one by one; the prompt is known as a whole, so prefill takes many together."),
]);

export const draw = sections({ own, proof: proofs });

/** The logits over rows computed again; on request those of the whole text read again. */
function proofs(host, context) {
  let everywhere = false;
  function query({ report, steps }) {
    return report && steps.length > 0 && { proof: ["kv_cache", { step: steps.length - 1, top: 5, ...(everywhere && { everywhere }) }] };
  }
  function change() {
    everywhere = !everywhere;
    life.update();
  }
  const life = fromViews(query, ({ proof: { info, tensors } }) => [
    heading("The cache put to the test"),
    facts([
      ["largest difference of a logit", quantity("largest_difference", info.largest_difference)],
      ["of a kept key or value", quantity("largest_row_difference", info.largest_row_difference)],
      ["the same best token", element("span", { "data-name": "same_top_token", "data-value": String(info.same_top_token) }, info.same_top_token ? "yes ✓" : "no ✗")],
    ]),
    table({
      name: "proof", caption: "The highest logits after the last token read",
      columns: ["token", "#as the run cached it", info.everywhere ? "#without any cache" : "#over rows computed again"],
      rows: info.top_ids.map((id, index) => [
        chip(named(id, info.token_texts)), quantity(`cached-${id}`, tensors.cached_logits.data[index]),
        quantity(`uncached-${id}`, tensors.uncached_logits.data[index]),
      ]),
    }),
    note(info.everywhere
      ? "All tokens were read once more in one piece, as a prompt, and nothing of the run was used. Many rows at once are summed in another order than one at a time: last digits may differ, by more where a kernel rounds to bfloat16."
      : "All keys and values were computed again from the states recorded at the entry of each layer, and the last token went through the layers alone, over these. So every kept row is what its layer's input gives; the inputs themselves come from the run that used the cache."),
    button(everywhere ? "Only compute the rows again" : "Read the whole text again without a cache", change, { "data-focus": "proof" }),
  ])(host, context);
  return life;
}

function each(ms, positions) {
  return positions > 0 ? duration(ms / positions) : "";
}

/** The response's blocks, each filled as far as it is used; hatched where rows came from an earlier request. */
function blocks({ num_blocks, block_size, num_prefix_tokens, rows_computed }) {
  const used = num_prefix_tokens + rows_computed;
  return element(
    "div", { class: "blocks", role: "img", "aria-label": `${num_blocks} blocks of ${block_size} positions, ${used} positions used, ${num_prefix_tokens} from an earlier request` },
    Array.from({ length: Math.min(num_blocks, 512) }, (_, index) => {
      const filled = Math.max(0, Math.min(1, (used - index * block_size) / block_size));
      const reused = (index + 1) * block_size <= num_prefix_tokens;
      return element("span", { class: `block${reused ? " block-reused" : ""}`, vars: { filled }, title: `block ${index}: ${Math.round(filled * block_size)} of ${block_size} positions` });
    }),
  );
}

export const arithmetic = fromReport((data, { steps, model }) => {
  const perPosition = data.num_bytes / (data.num_blocks * data.block_size);
  const numbers = 2 * model.n_layers * model.n_kv_heads * model.head_width;
  return [
    note("One position keeps a key and a value for every layer and key head:"),
    formula(`2 · ${model.n_layers} layers · ${model.n_kv_heads} heads · ${model.head_width} = ${count(numbers)} numbers, ${short(perPosition / numbers)} bytes each = ${bytes(perPosition)}`),
    agrees("num_bytes", numbers * Math.round(perPosition / numbers) * data.num_blocks * data.block_size, data.num_bytes, { format: bytes }),
    steps.length > 0 && [
      note("Rows reused, added up over the steps:"),
      agrees("rows_reused", sum(steps.map((step) => step.kv.rows_reused)), data.rows_reused, { format: count }),
    ],
    note(`Without the cache, every step would compute all earlier rows again: ${percent(data.rows_reused / (data.rows_reused + data.rows_computed))} of that work was saved.`),
  ];
}, ({ steps }) => [steps.length]);
