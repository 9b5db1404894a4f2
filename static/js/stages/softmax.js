/** Stage 14: attention weights: the map of a head, the row of the query, and all heads side by side. */

import { element, swap } from "../dom.js";
import { attentionLines } from "../attention-lines.js";
import { headGrid, heatmap, legend, thumbnail } from "../charts.js";
import { number, percent, plural, short } from "../format.js";
import { chosenKey, keyChip, numKeys, shownKeys } from "../keys.js";
import { agrees, bar, entropy, facts, fold, followViews, formula, fromViews, heading, note, quantity, sections, softmax, sum, table, tokenAt, tokensBetween } from "../parts.js";
import { liveRow } from "../live-row.js";
import { numPositions } from "../selection.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { selection } = context;
  const token = tokenAt(context, selection.position);
  return `Exponentials made all scores positive, and division by their sum made them shares: head ${selection.head} of layer ${selection.layer} spread 100 % of the attention of “${label(token)}” over ${plural(numKeys(context), "position")}. That is where this head read, not why.`;
}

const TILE = 500; // positions a side that one view may have

const ready = ({ selection: { layer, position } }) => position !== null && layer !== null;
const rowQuery = (now) => ready(now) && { row: ["softmax", pick(now)] };
const pick = ({ selection: { layer, head, position } }) => ({ layer, head, position });

export function draw(host, context) {
  return sections(host, context, { live: liveRow, map: drawMap, lines: drawLines, row: drawRow, grid: drawGrid });
}

/** Bounds of a map's axis: everything while it fits one view, else the tile that the position lies in. */
function tile(axis, position, length) {
  const from = Math.floor(position / TILE) * TILE;
  return { [`${axis}_from`]: from, [`${axis}_to`]: Math.min(length, from + TILE) };
}

/** The map of the whole head: it follows layer and head; the chosen cell follows query and key. */
function drawMap(host, context) {
  const part = element("p", { class: "note" });
  let chart = null;
  let latest = context;
  let drawn = null;
  function show({ map: { info, tensors } }) {
    const spec = {
      values: tensors.weights.data, top: info.colour_maximum, leavesOut: info.colour_leaves_out,
      queries: tokensBetween(latest, info.query_from, info.query_to), keys: tokensBetween(latest, info.key_from, info.key_to),
      selected: { query: latest.selection.position, key: chosenKey(latest) },
      onCell: (position, key) => latest.select({ position, key }),
    };
    part.textContent = info.num_positions > TILE
      ? `Positions ${info.query_from} to ${info.query_to - 1} reading ${info.key_from} to ${info.key_to - 1}, of ${info.num_positions}: the part around the chosen query and key.`
      : "";
    if (chart) return chart.update(spec);
    host.append(heading("The map of this head: rows are queries, columns the keys they read"), part);
    chart = heatmap(host, spec);
  }
  const query = (now) => {
    if (!ready(now)) return null;
    const length = numPositions(now.numPromptTokens, now.steps);
    const { layer, head, position } = now.selection;
    return { map: ["attention", { layer, head, ...tile("query", position, length), ...tile("key", chosenKey(now), length) }] };
  };
  const life = followViews(host, context, query, (views) => {
    drawn = views;
    show(views);
  });
  return {
    update(next) {
      const moved = next.selection.position !== latest.selection.position || next.selection.key !== latest.selection.key;
      latest = next;
      life.update(next);
      if (moved && drawn) show(drawn);
    },
    destroy: () => (chart?.destroy(), life.destroy()),
  };
}

function drawLines(host, context) {
  return fromViews(host, context, rowQuery, ({ row }, now) => [
    heading(`What “${label(tokenAt(now, now.selection.position))}” read`), attentionLines(row.tensors.weights.data, now),
  ]);
}

function drawRow(host, context) {
  return fromViews(host, context, rowQuery, ({ row: { info, tensors } }, now) => {
    const weights = tensors.weights.data;
    const most = weights.reduce((largest, weight) => Math.max(largest, weight), 0) || 1;
    const key = chosenKey(now);
    const shown = shownKeys(weights, key);
    return [
      heading(`The row of the query “${label(tokenAt(now, now.selection.position))}”`),
      facts([
        ["sum of the row", quantity("row_sum", info.sum)],
        ["entropy", [quantity("entropy", info.entropy), " nats"]],
        ["weight on position 0", quantity("sink_mass", info.sink_mass, percent)],
      ]),
      table({
        name: "weights", caption: `Weights; bars run from 0 to ${percent(most)}${shown.length < weights.length ? `; the ${shown.length} largest of ${weights.length}` : ""}`,
        columns: [{ title: "key" }, { title: "weight" }],
        rows: shown.map((index) => ({
          selected: index === key,
          cells: [keyChip(now, index), bar(weights[index] / most, quantity(`weight-${index}`, weights[index]))],
        })),
      }),
    ];
  });
}

/** Entropy of every head of every layer, and the maps of one layer's heads in small. */
function drawGrid(host, context) {
  const query = (now) => ready(now) && { grid: ["heads_grid", { layer: now.selection.layer, position: now.selection.position }] };
  let latest = context;
  let drawn = null;
  function show({ grid: { info, tensors } }) {
    const { layer, head, position } = latest.selection;
    const [layers, heads] = tensors.entropy.shape;
    const most = tensors.entropy.data.reduce((largest, value) => Math.max(largest, value), 0);
    const [, size] = tensors.thumbnails.shape;
    swap(
      host,
      heading("All layers and heads: how widely each spread its attention"),
      headGrid({
        values: tensors.entropy.data, layers, heads, range: [0, most], selected: { layer, head }, name: `Entropy at position ${position}`,
        onPick: (nextLayer, nextHead) => latest.select({ layer: nextLayer, head: nextHead }),
      }),
      legend("sequential", ["0", `${number(most, 3)} nats`], "entropy: 0 is all on one position. Layers run across, heads down."),
      heading(`The heads of layer ${layer}`),
      element("div", { class: "thumbnails" }, Array.from({ length: heads }, (_, index) => {
        const values = tensors.thumbnails.data.subarray(index * size * size, (index + 1) * size * size);
        const at = layer * heads + index;
        return element(
          "button", {
            type: "button", class: "thumbnail-button", "aria-pressed": String(index === head), "data-focus": `head-${index}`,
            "data-head": index, onclick: () => latest.select({ head: index }),
          },
          thumbnail(values, size, info.colour_maximum), `head ${index}`,
          element("span", {}, quantity(`entropy-${index}`, tensors.entropy.data[at], short), " nats"),
        );
      })),
      legend("sequential", ["0", number(info.colour_maximum, 3)], `${info.colour_leaves_out ? `The range leaves out ${info.colour_leaves_out}. ` : ""}${info.positions_per_cell > 1 ? `A cell is the largest of ${info.positions_per_cell} × ${info.positions_per_cell} weights.` : ""}`),
    );
  }
  const life = followViews(host, context, query, (views) => {
    drawn = views;
    show(views);
  });
  return {
    update(next) {
      const moved = next.selection.head !== latest.selection.head;
      latest = next;
      life.update(next);
      if (moved && drawn) show(drawn);
    },
    destroy: life.destroy,
  };
}

export function arithmetic(host, context) {
  return fromViews(host, context, rowQuery, ({ row: { info, tensors } }, now) => {
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
        columns: [{ title: "key" }, { title: "scaled score", numeric: true }, { title: "exponential", numeric: true }, { title: "weight here", numeric: true }, { title: "the server's", numeric: true }],
        rows: shownKeys(weights, key).map((index) => [
          `${index} ${label(tokenAt(now, index))}`, number(scaled[index]), number(mine.exponentials[index]), number(mine.shares[index]), number(weights[index]),
        ]),
      })),
    ];
  });
}
