/** Stage 14: attention weights: the map of a head, the row of the query, and all heads side by side. */

import { largestSize } from "../arithmetic.js";
import { element } from "../dom.js";
import { attentionLines } from "../attention-lines.js";
import { headGrid, heatmap, legend, thumbnail } from "../charts.js";
import { number, percent, plural, short } from "../format.js";
import { chosenKey, keyChip, numKeys, shownKeys } from "../keys.js";
import { agrees, bar, entropy, facts, fold, formula, heading, note, quantity, softmax, sum, table } from "../parts.js";
import { liveRow } from "../live-row.js";
import { followViews, fromView, sections } from "../pictures.js";
import { numPositions } from "../selection.js";
import { label, tokenAt, tokensBetween } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { selection, token } = context;
  return `Exponentials made all scores positive, and division by their sum made them shares: head ${selection.head} of layer ${selection.layer} spread 100 % of the attention of “${label(token)}” over ${plural(numKeys(context), "position")}. That is where this head read, not why.`;
}

const TILE = 500; // positions a side that one view may have


/** Bounds of a map's axis: everything while it fits one view, else the tile that the position lies in. */
function tile(axis, position, length) {
  const from = Math.floor(position / TILE) * TILE;
  return { [`${axis}_from`]: from, [`${axis}_to`]: Math.min(length, from + TILE) };
}

/** The map of the whole head: it follows layer and head; the chosen cell follows query and key. */
function drawMap(host, context) {
  const part = element("p", { class: "note" });
  let chart = null;
  function show({ map: { info, tensors } }, now) {
    const spec = {
      values: tensors.weights.data, top: info.colour_maximum, leavesOut: info.colour_leaves_out,
      queries: tokensBetween(now, info.query_from, info.query_to), keys: tokensBetween(now, info.key_from, info.key_to),
      selected: { query: now.selection.position, key: chosenKey(now) },
      onCell: (position, key) => now.select({ position, key }),
    };
    part.textContent = info.num_positions > TILE
      ? `Positions ${info.query_from} to ${info.query_to - 1} reading ${info.key_from} to ${info.key_to - 1}, of ${info.num_positions}: the part around the chosen query and key.`
      : "";
    if (chart) return chart.update(spec);
    host.append(heading("The map of this head: rows are queries, columns the keys they read"), part);
    chart = heatmap(host, spec);
  }
  const query = (now) => {
    const { layer, head, position } = now.selection;
    if (position === null || layer === null) return null;
    const length = numPositions(now.numPromptTokens, now.steps);
    return { map: ["attention", { layer, head, ...tile("query", position, length), ...tile("key", chosenKey(now), length) }] };
  };
  const life = followViews(query, show)(host, context);
  return { ...life, destroy: () => (chart?.destroy(), life.destroy()) };
}

const lines = fromView("softmax", uses, ({ tensors }, now) => [
  heading(`What “${label(now.token)}” read`), attentionLines(tensors.weights.data, now),
]);

const row = fromView("softmax", uses, ({ info, tensors }, now) => {
  const weights = tensors.weights.data;
  const most = largestSize(weights);
  const key = chosenKey(now);
  const shown = shownKeys(weights, key);
  return [
    heading(`The row of the query “${label(now.token)}”`),
    facts([
      ["sum of the row", quantity("row_sum", info.sum)],
      ["entropy", [quantity("entropy", info.entropy), " nats"]],
      ["weight on position 0", quantity("sink_mass", info.sink_mass, percent)],
    ]),
    table({
      name: "weights", caption: `Weights; bars run from 0 to ${percent(most)}${shown.length < weights.length ? `; the ${shown.length} largest of ${weights.length}` : ""}`,
      columns: ["key", "weight"],
      rows: shown.map((index) => ({
        selected: index === key,
        cells: [keyChip(now, index), bar(weights[index] / most, quantity(`weight-${index}`, weights[index]))],
      })),
    }),
  ];
});

/** Entropy of every head of every layer, and the maps of one layer's heads in small. */
const grid = fromView("heads_grid", ["layer", "position"], ({ info, tensors }, now) => {
  const { layer, head, position } = now.selection;
  const [layers, heads] = tensors.entropy.shape;
  const most = Math.max(...tensors.entropy.data);
  const [, size] = tensors.thumbnails.shape;
  return [
    heading("All layers and heads: how widely each spread its attention"),
    headGrid({
      values: tensors.entropy.data, layers, heads, range: [0, most], selected: { layer, head }, name: `Entropy at position ${position}`,
      onPick: (nextLayer, nextHead) => now.select({ layer: nextLayer, head: nextHead }),
    }),
    legend("sequential", ["0", `${number(most, 3)} nats`], "entropy: 0 is all on one position. Layers run across, heads down."),
    heading(`The heads of layer ${layer}`),
    element("div", { class: "thumbnails" }, Array.from({ length: heads }, (_, index) => {
      const values = tensors.thumbnails.data.subarray(index * size * size, (index + 1) * size * size);
      const at = layer * heads + index;
      return element(
        "button", {
          type: "button", class: "thumbnail-button", "aria-pressed": String(index === head), "data-focus": `head-${index}`,
          "data-head": index, onclick: () => now.select({ head: index }),
        },
        thumbnail(values, size, info.colour_maximum), `head ${index}`,
        element("span", {}, quantity(`entropy-${index}`, tensors.entropy.data[at], short), " nats"),
      );
    })),
    legend("sequential", ["0", number(info.colour_maximum, 3)], `${info.colour_leaves_out ? `The range leaves out ${info.colour_leaves_out}. ` : ""}${info.positions_per_cell > 1 ? `A cell is the largest of ${info.positions_per_cell} × ${info.positions_per_cell} weights.` : ""}`),
  ];
});

export const draw = sections({ live: liveRow, map: drawMap, lines, row, grid });

export const arithmetic = fromView("softmax", uses, ({ info, tensors }, now) => {
  const scaled = tensors.scaled.data;
  const mine = softmax(scaled);
  const key = chosenKey(now);
  const weights = tensors.weights.data;
  const name = label(tokenAt(now, key));
  return [
    note(`The largest score, ${number(mine.largest)}, is taken off first: it changes no share and keeps the exponentials small.`),
    formula(`exp(${number(scaled[key])} − ${number(mine.largest)}) = ${number(mine.exponentials[key])} for “${name}”`),
    formula(`sum of ${plural(scaled.length, "exponential")} = ${number(mine.total)}`),
    agrees("exponential_sum", mine.total, info.exponential_sum, { title: "sum of exponentials" }),
    formula(`${number(mine.exponentials[key])} / ${number(mine.total)} = ${number(mine.shares[key])}`),
    agrees(`weight-${key}`, mine.shares[key], weights[key], { title: "weight", terms: 1 }),
    agrees("row_sum", sum(weights), info.sum, { title: "sum of the row" }),
    agrees("entropy", entropy(mine.shares), info.entropy, { title: "entropy, minus the sum of weight × ln weight", terms: 1 }),
    fold("exponentials", "Every key", () => table({
      name: "exponentials", caption: "From scaled score to weight",
      columns: ["key", "#scaled score", "#exponential", "#weight here", "#the server's"],
      rows: shownKeys(weights, key).map((index) => [
        `${index} ${label(tokenAt(now, index))}`, number(scaled[index]), number(mine.exponentials[index]), number(mine.shares[index]), number(weights[index]),
      ]),
    })),
  ];
});
