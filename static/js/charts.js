/**
 * Charts of more than one number: heat map and lines by Plotly; strips and thumbnails on a canvas.
 *
 * Each is `name(host, spec)` → `{update(spec), destroy()}`, follows theme and width, and says the range of its colours.
 * None rescales values: what a colour scale leaves out is said beside it.
 */

import { largestSize, numAllowedKeys } from "./arithmetic.js";
import { onThemeChange, painted, plotlyScale, themed } from "./colours.js";
import { arrow, element } from "./dom.js";
import { number } from "./format.js";
import { choice } from "./parts.js";
import { CONFIG, baseLayout, loadPlotly } from "./plotly.js";
import { label, markup } from "./tokens.js";

const TICK_PX = 13;
const CHARACTER_PX = 6.7;
const LONGEST_TICK = 16; // characters; half of them where the page is narrow
const NARROW_PX = 480;
const LOG_DECADES = 4;
const LARGEST_SIDE = 620;

/** Redraw when the width or the theme changes, at most once a frame; returns the way to stop. */
function follow(host, redraw) {
  let frame = 0;
  let width = host.clientWidth;
  const later = () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(redraw);
  };
  const sizes = new ResizeObserver(() => {
    if (host.clientWidth === width) return;
    width = host.clientWidth;
    later();
  });
  sizes.observe(host);
  const stop = onThemeChange(later);
  return () => {
    sizes.disconnect();
    stop();
    cancelAnimationFrame(frame);
  };
}

/** A colour bar with its ends in numbers. `ends` are texts; `note` says what the range leaves out. */
export function legend(name, ends, note) {
  const canvas = element("canvas", { class: "legend-bar", "aria-hidden": "true" });
  painted(canvas, 256, 1, name, (column) => column / 255);
  return element("p", { class: "colour-legend" }, ends[0], " ", canvas, " ", ends[1], note && element("span", {}, ` ${note}`));
}

function ticks(tokens, pixels, longest) {
  const step = Math.max(1, Math.ceil((tokens.length * TICK_PX) / pixels));
  const shown = tokens.map((_, index) => index).filter((index) => index % step === 0);
  const text = shown.map((index) => {
    const whole = plainTick(tokens[index]);
    return markup(whole.length > longest ? `${whole.slice(0, longest - 1)}…` : whole);
  });
  return { tickmode: "array", tickvals: shown, ticktext: text };
}

/**
 * A map of attention: `{values, queries, keys, top, leavesOut, selected: {query, key}, onCell(query, key)}`.
 *
 * `queries` and `keys` are the tokens down and across, `values` runs row by row; a key after its query has no cell.
 * Colours end at `top`, the largest value outside what `leavesOut` names. Positions are the tokens' own. Arrow keys
 * walk, Enter chooses.
 */
export function heatmap(host, first) {
  let spec = first;
  let scaleName = "linear";
  let cursor = null; // {row, column}: the cell under the pointer or the arrow keys
  let geometry = null;

  const plot = element("div", { class: "heatmap-plot" });
  const mark = element("div", { class: "heatmap-mark", "aria-hidden": "true", hidden: true });
  const chosen = element("div", { class: "heatmap-mark heatmap-chosen", "aria-hidden": "true", hidden: true });
  const frame = element(
    "div",
    {
      class: "heatmap", tabindex: "0", role: "group", "data-focus": "heatmap",
      "aria-label": "Attention map: rows are queries, columns are keys. Arrow keys walk, Enter chooses a cell.",
      onkeydown: walk,
      onblur: () => point(null),
    },
    plot, chosen, mark,
  );
  const said = element("output", { class: "heatmap-said" });
  const key = element("div");
  const scales = ["linear", "logarithmic"].map((name) => [name, name]);
  const scale = choice("Colour scale", "heatmap-scale", scales, scaleName, (name) => {
    scaleName = name;
    life.redraw();
  });
  host.append(scale, frame, said, key);

  const valueAt = ({ row, column }) => spec.values[row * spec.keys.length + column];
  const forbidden = (row, column) => spec.keys[column].position > spec.queries[row].position;

  function selectedCell() {
    const row = spec.selected.query - spec.queries[0].position;
    const column = spec.selected.key - spec.keys[0].position;
    return row >= 0 && row < spec.queries.length && column >= 0 && column < spec.keys.length ? { row, column } : null;
  }

  function place(node, cell) {
    node.hidden = !cell || !geometry;
    if (node.hidden) return;
    const { left, top, width, height } = geometry;
    const sizes = {
      left: left + (cell.column * width) / spec.keys.length, top: top + (cell.row * height) / spec.queries.length,
      width: width / spec.keys.length, height: height / spec.queries.length,
    };
    for (const [name, size] of Object.entries(sizes)) node.style.setProperty(`--${name}`, `${size}px`);
  }

  function tell(cell) {
    if (!cell) return said.replaceChildren();
    const weight = forbidden(cell.row, cell.column) ? "masked: later than the query" : `weight ${number(valueAt(cell))}`;
    said.replaceChildren(
      `query ${spec.queries[cell.row].position} ${label(spec.queries[cell.row])} reads key ${spec.keys[cell.column].position} ${label(spec.keys[cell.column])}: ${weight}`,
    );
  }

  function point(cell) {
    cursor = cell;
    place(mark, cell);
    tell(cell ?? selectedCell());
  }

  function walk(event) {
    const from = cursor ?? selectedCell() ?? { row: 0, column: 0 };
    const moved = arrow(event);
    if (moved) {
      const [right, down] = moved;
      const within = (value, size) => Math.max(0, Math.min(size - 1, value));
      point({ row: within(from.row + down, spec.queries.length), column: within(from.column + right, spec.keys.length) });
    } else if (event.key === "Enter" || event.key === " ") {
      choose(from);
      event.preventDefault();
      event.stopPropagation();
    }
  }

  function choose({ row, column }) {
    if (!forbidden(row, column)) spec.onCell(spec.queries[row].position, spec.keys[column].position);
  }

  async function draw(plotly) {
    const rows = spec.queries.length;
    const columns = spec.keys.length;
    const top = spec.top || 1; // zeros alone: any range will do
    const floor = top / 10 ** LOG_DECADES;
    const logarithmic = scaleName === "logarithmic";
    const shown = (value) => (logarithmic ? Math.log10(Math.max(value, floor)) : value);
    const z = spec.queries.map((_, row) =>
      spec.keys.map((__, column) => (forbidden(row, column) ? null : shown(valueAt({ row, column })))));
    const most = frame.clientWidth < NARROW_PX ? LONGEST_TICK / 2 : LONGEST_TICK;
    const longest = (tokens) =>
      Math.min(most, tokens.reduce((length, token) => Math.max(length, plainTick(token).length), 0)) * CHARACTER_PX + 12;
    const left = longest(spec.queries);
    const bottom = longest(spec.keys);
    const width = Math.min(frame.clientWidth - left - 4, LARGEST_SIDE);
    const height = Math.max(48, (width * rows) / columns);
    geometry = { left, top: 4, width, height };
    const { axis, ...layout } = baseLayout(themed);
    // Labels that are never moved or hidden need not be measured, which took most of a redraw.
    const plain = { ...axis, showgrid: false, zeroline: false, ticklabeloverflow: "allow" };
    const gap = columns <= 64 && width / columns > 5 ? 1 : 0;
    await plotly.react(
      plot,
      [{
        type: "heatmap", z, zmin: shown(0), zmax: shown(top), colorscale: plotlyScale("sequential"), showscale: false,
        hoverinfo: "none", xgap: gap, ygap: gap,
      }],
      {
        ...layout, width: left + width + 4, height: height + bottom + 4, margin: { l: left, r: 4, t: 4, b: bottom },
        xaxis: { ...plain, ...ticks(spec.keys, width, most), tickangle: -90, range: [-0.5, columns - 0.5] },
        yaxis: { ...plain, ...ticks(spec.queries, height, most), tickangle: 0, range: [rows - 0.5, -0.5] },
      },
      CONFIG,
    );
    listen(plot, {
      plotly_click: ({ points: [{ x, y }] }) => choose({ row: y, column: x }),
      plotly_hover: ({ points: [{ x, y }] }) => point({ row: y, column: x }),
      plotly_unhover: () => point(null),
    });
    const holdsSink = spec.queries[0].position === 0 || spec.keys[0].position === 0;
    const note = spec.leavesOut && holdsSink
      ? `The range leaves out ${spec.leavesOut}; what is larger there has the end colour. No value is rescaled.`
      : "No value is rescaled.";
    key.replaceChildren(legend("sequential", [logarithmic ? `${number(floor, 3)} or less` : "0", number(top, 3)], note));
    place(chosen, selectedCell());
    point(cursor);
  }

  const life = plotted(frame, plot, draw);
  return {
    update(next) {
      spec = next;
      cursor = null;
      life.redraw();
    },
    destroy: life.destroy,
  };
}

/** Plotly's own events of a plot, each with the one listener it has now; a plot closed meanwhile has none. */
function listen(plot, listeners) {
  for (const [name, listener] of Object.entries(listeners)) {
    plot.removeAllListeners?.(name);
    plot.on?.(name, listener);
  }
}

function plainTick(token) {
  return `${token.position} ${label(token)}`;
}

/**
 * Lines over a common axis: `{series: [{name, values, dashed}], x: {title, labels?}, y: {title, log?}, selected,
 * onPoint(index)}`. A null value is a gap.
 */
export function lines(host, first) {
  let spec = first;
  const plot = element("div", { class: "lines-plot" });
  host.append(plot);

  async function draw(plotly) {
    const { series, x, y, selected } = spec;
    const { axis, ...layout } = baseLayout(themed);
    const colours = [themed("model"), themed("service"), themed("ink-soft")];
    await plotly.react(
      plot,
      series.map(({ name, values, dashed }, index) => ({
        type: "scatter", mode: values.length > 60 ? "lines" : "lines+markers", name, y: Array.from(values),
        line: { color: colours[index % colours.length], width: 2, dash: dashed ? "dot" : "solid" },
        marker: { size: 5 },
        hovertemplate: `${x.title} %{x}: %{y:.6g}<extra>${name}</extra>`,
      })),
      {
        ...layout, width: host.clientWidth, height: 240, margin: { l: 64, r: 8, t: 8, b: 44 },
        showlegend: series.length > 1, legend: { orientation: "h", y: 1.16, x: 0 }, hovermode: "closest",
        xaxis: { ...axis, title: { text: x.title }, ...(x.labels ?? {}) },
        yaxis: { ...axis, title: { text: y.title }, type: y.log ? "log" : "linear" },
        shapes: selected === undefined || selected === null ? [] : [{
          type: "line", x0: selected, x1: selected, y0: 0, y1: 1, yref: "paper",
          line: { color: themed("ink-soft"), width: 1, dash: "dot" },
        }],
      },
      CONFIG,
    );
    listen(plot, { plotly_click: ({ points: [{ pointIndex }] }) => spec.onPoint?.(pointIndex) });
  }

  const life = plotted(host, plot, draw);
  return {
    update(next) {
      spec = next;
      life.redraw();
    },
    destroy: life.destroy,
  };
}

/** `draw(plotly)` now, at every `redraw()`, and when the width of `host` or the theme changes. */
function plotted(host, plot, draw) {
  let gone = false;
  async function redraw() {
    const plotly = await loadPlotly();
    if (gone || !host.isConnected) return;
    await draw(plotly);
    plot.dataset.drawn = String(Number(plot.dataset.drawn ?? 0) + 1);
  }
  const stop = follow(host, redraw);
  redraw();
  return {
    redraw,
    destroy() {
      gone = true;
      stop();
      window.Plotly?.purge(plot);
    },
  };
}

/** The number of the cell of a canvas under the pointer, [column, row]. */
function cellUnder(event, columns, rows) {
  const box = event.target.getBoundingClientRect();
  return [
    Math.floor(((event.clientX - box.left) / box.width) * columns), Math.floor(((event.clientY - box.top) / box.height) * rows),
  ];
}

/**
 * A vector as a strip of signed colours, `perRow` numbers a row: blue below zero, orange above, range ± the largest
 * size. The number under the pointer, or under the arrow keys, stands below.
 */
export function strip(values, { name, perRow = 64 } = {}) {
  const range = largestSize(values);
  const columns = Math.min(perRow, values.length);
  const rows = Math.ceil(values.length / columns);
  const canvas = element("canvas", {
    class: "strip", tabindex: "0", role: "img", vars: { rows },
    "aria-label": `${name}: ${values.length} numbers between ${number(-range, 3)} and ${number(range, 3)}. Arrow keys walk.`,
    onpointermove(event) {
      const [column, row] = cellUnder(event, columns, rows);
      show(row * columns + column);
    },
    onkeydown(event) {
      const moved = arrow(event);
      if (moved) show(at + moved[0] + moved[1] * columns);
    },
  });
  const said = element("output", { class: "strip-said" });
  let at = 0;
  function show(index) {
    at = Math.max(0, Math.min(values.length - 1, index));
    said.textContent = `[${at}] = ${number(values[at])}`;
  }
  painted(canvas, columns, rows, "diverging", (column, row) => {
    const index = row * columns + column;
    return index < values.length ? 0.5 + values[index] / range / 2 : null;
  });
  show(0);
  return element(
    "figure", { class: "strip-figure" },
    element("figcaption", {}, name), canvas,
    element("div", { class: "strip-foot" }, said, legend("diverging", [number(-range, 3), number(range, 3)])),
  );
}

/**
 * One cell per layer and head: `values` [layers × heads] on a scale from `range[0]` to `range[1]`; a
 * click or arrow keys choose. Returns the canvas.
 */
export function headGrid({ values, layers, heads, range, scale = "sequential", selected, onPick, name }) {
  const canvas = element("canvas", {
    class: "head-grid", tabindex: "0", role: "img", "data-focus": "head-grid", vars: { layers, heads },
    "aria-label": `${name}, ${layers} layers across and ${heads} heads down. Arrow keys choose layer and head; now layer ${selected.layer}, head ${selected.head}.`,
    onclick: (event) => pick(...cellUnder(event, layers, heads)),
    onkeydown(event) {
      const moved = arrow(event);
      if (moved) pick(selected.layer + moved[0], selected.head + moved[1]);
    },
  });
  function pick(layer, head) {
    if (layer >= 0 && layer < layers && head >= 0 && head < heads) onPick(layer, head);
  }
  const span = range[1] - range[0] || 1;
  painted(canvas, layers, heads, scale, (layer, head) => (values[layer * heads + head] - range[0]) / span);
  const mark = element("span", {
    class: "head-grid-mark", "aria-hidden": "true",
    vars: { layer: selected.layer, head: selected.head, layers, heads },
  });
  return element("div", { class: "head-grid-box" }, canvas, mark);
}

/** A small map, `size` × `size` cells, as a picture without axes. */
export function thumbnail(values, size, top) {
  const canvas = element("canvas", { class: "thumbnail", "aria-hidden": "true" });
  painted(canvas, size, size, "sequential", (column, row) => values[row * size + column] / (top || 1));
  return canvas;
}

/** The square of queries × keys with the allowed cells filled and one row outlined. */
export function maskSquare({ size, row, window }) {
  const first = (query) => query + 1 - numAllowedKeys(query, window);
  const canvas = element("canvas", {
    class: "mask-square", role: "img", "aria-label": `${size} queries down and ${size} keys across; query ${row} may look at keys ${first(row)} to ${row}`,
  });
  painted(canvas, size, size, "sequential", (column, at) => (column > at || column < first(at) ? 0.04 : at === row ? 1 : 0.45));
  return element("figure", { class: "strip-figure" }, canvas,
    element("figcaption", {}, `Filled: allowed. Dark: the row of the query at position ${row}. Rows are queries, columns are keys.`));
}
