/**
 * Charts of more than one number: heat map and lines by Plotly; strips and thumbnails on a canvas.
 *
 * Each is `name(host, spec)` → `{update(spec), destroy()}`, follows theme and width, and says the range of its colours.
 * None rescales values: what a colour scale leaves out is said beside it.
 */

import { onThemeChange, painted, plotlyScale, themed } from "./colours.js";
import { element } from "./dom.js";
import { number } from "./format.js";
import { CONFIG, baseLayout, loadPlotly } from "./plotly.js";
import { tick } from "./tokens.js";

const TICK_PX = 13;
const CHARACTER_PX = 6.7;
const LONGEST_TICK = 16;
const LOG_DECADES = 4;

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
  return element("p", { class: "legend" }, ends[0], " ", canvas, " ", ends[1], note && element("span", {}, ` ${note}`));
}

/**
 * The range of a map's colours: from zero to the largest value outside row 0 and column 0, where the sink sits. A map
 * that has nothing outside takes its own largest value; one of zeros alone takes 1, so that it stays readable.
 */
export function colourRange(values, rows, columns) {
  let inner = 0;
  let all = 0;
  let above = 0;
  for (let at = 0; at < rows * columns; at += 1) {
    all = Math.max(all, values[at]);
    if (at >= columns && at % columns !== 0) inner = Math.max(inner, values[at]);
  }
  const top = inner || all || 1;
  for (let at = 0; at < rows * columns; at += 1) if (values[at] > top) above += 1;
  return { top, above, sinkLeftOut: inner > 0 };
}

function ticks(tokens, pixels) {
  const step = Math.max(1, Math.ceil((tokens.length * TICK_PX) / pixels));
  const shown = tokens.map((_, index) => index).filter((index) => index % step === 0);
  const text = shown.map((index) => {
    const whole = tick(tokens[index]);
    return whole.length > LONGEST_TICK && !whole.includes("&") ? `${whole.slice(0, LONGEST_TICK - 1)}…` : whole;
  });
  return { tickmode: "array", tickvals: shown, ticktext: text };
}

/**
 * A map of attention: `{values, rows, columns, rowTokens, columnTokens, selected: {row, column}, onCell(row, column)}`.
 * `values` runs row by row; row r attends to columns 0…r, the rest has no cell. Arrow keys walk, Enter chooses.
 */
export function heatmap(host, first) {
  let spec = first;
  let scaleName = "linear";
  let cursor = null;
  let geometry = null;
  let gone = false;

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
  const choice = element(
    "fieldset", { class: "choice" }, element("legend", {}, "Colour scale"),
    ["linear", "logarithmic"].map((name) =>
      element("label", {},
        element("input", {
          type: "radio", name: "heatmap-scale", value: name, checked: name === scaleName,
          onchange: () => {
            scaleName = name;
            redraw();
          },
        }), ` ${name}`),
    ),
  );
  host.append(choice, frame, said, key);

  function place(node, cell) {
    node.hidden = !cell || !geometry || cell.row >= spec.rows || cell.column >= spec.columns;
    if (node.hidden) return;
    const { left, top, width, height } = geometry;
    const sizes = {
      left: left + (cell.column * width) / spec.columns, top: top + (cell.row * height) / spec.rows,
      width: width / spec.columns, height: height / spec.rows,
    };
    for (const [name, size] of Object.entries(sizes)) node.style.setProperty(`--${name}`, `${size}px`);
  }

  function tell(cell) {
    const at = cell ?? spec.selected;
    if (!at || at.row >= spec.rows) return said.replaceChildren();
    const value = spec.values[at.row * spec.columns + at.column];
    const weight = at.column > at.row ? "masked: later than the query" : `weight ${number(value)}`;
    said.replaceChildren(
      `query ${tickText(spec.rowTokens[at.row])} reads key ${tickText(spec.columnTokens[at.column])}: ${weight}`,
    );
  }

  function point(cell) {
    cursor = cell;
    place(mark, cell);
    tell(cell);
  }

  function walk(event) {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const from = cursor ?? spec.selected ?? { row: 0, column: 0 };
    if (event.key in moves) {
      const [down, right] = moves[event.key];
      point({
        row: Math.max(0, Math.min(spec.rows - 1, from.row + down)),
        column: Math.max(0, Math.min(spec.columns - 1, from.column + right)),
      });
    } else if (event.key === "Enter" || event.key === " ") choose(from);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  function choose({ row, column }) {
    if (column <= row) spec.onCell?.(row, column);
  }

  async function redraw() {
    const plotly = await loadPlotly();
    if (gone || !host.isConnected) return;
    const { values, rows, columns } = spec;
    const { top, above, sinkLeftOut } = colourRange(values, rows, columns);
    const floor = top / 10 ** LOG_DECADES;
    const logarithmic = scaleName === "logarithmic";
    const shown = (value) => (logarithmic ? Math.log10(Math.max(value, floor)) : value);
    const z = Array.from({ length: rows }, (_, row) =>
      Array.from({ length: columns }, (__, column) => (column > row ? null : shown(values[row * columns + column]))),
    );
    const longest = (tokens) =>
      Math.min(LONGEST_TICK, Math.max(...tokens.map((token) => tickText(token).length))) * CHARACTER_PX + 12;
    const left = longest(spec.rowTokens);
    const bottom = longest(spec.columnTokens);
    const width = frame.clientWidth;
    const side = Math.min(width - left - 4, 620);
    const height = Math.max(48, (side * rows) / columns);
    geometry = { left, top: 4, width: side, height };
    const { axis, ...layout } = baseLayout(themed);
    await plotly.react(
      plot,
      [{
        type: "heatmap", z, zmin: shown(0), zmax: shown(top), colorscale: plotlyScale("sequential"), showscale: false,
        hoverinfo: "none", xgap: rows <= 64 ? 1 : 0, ygap: rows <= 64 ? 1 : 0,
      }],
      {
        ...layout, width: left + side + 4, height: height + bottom + 4, margin: { l: left, r: 4, t: 4, b: bottom },
        xaxis: { ...axis, ...ticks(spec.columnTokens, side), tickangle: -90, showgrid: false, zeroline: false,
          range: [-0.5, columns - 0.5] },
        yaxis: { ...axis, ...ticks(spec.rowTokens, height), showgrid: false, zeroline: false,
          range: [rows - 0.5, -0.5] },
      },
      CONFIG,
    );
    if (gone) return;
    plot.removeAllListeners?.("plotly_click");
    plot.removeAllListeners?.("plotly_hover");
    plot.removeAllListeners?.("plotly_unhover");
    plot.on("plotly_click", ({ points: [{ x, y }] }) => choose({ row: y, column: x }));
    plot.on("plotly_hover", ({ points: [{ x, y }] }) => point({ row: y, column: x }));
    plot.on("plotly_unhover", () => point(null));
    const left_out = sinkLeftOut
      ? `The range is that of the cells outside row 0 and column 0${above ? `; ${above} larger cells there have its end colour` : ""}. No value is rescaled.`
      : "No value is rescaled.";
    const low = logarithmic ? `${number(floor, 3)} or less` : "0";
    key.replaceChildren(legend("sequential", [low, number(top, 3)], left_out));
    place(chosen, spec.selected);
    place(mark, cursor);
    tell(cursor);
    plot.dataset.drawn = String(Number(plot.dataset.drawn ?? 0) + 1);
  }

  const stop = follow(frame, redraw);
  redraw();
  return {
    update(next) {
      spec = next;
      redraw();
    },
    destroy() {
      gone = true;
      stop();
      window.Plotly?.purge(plot);
    },
  };
}

function tickText(token) {
  return tick(token).replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
}

/**
 * Lines over a common axis: `{series: [{name, values, dashed}], x: {title, labels?}, y: {title, log?}, selected,
 * onPoint(index)}`. A null value is a gap.
 */
export function lines(host, first) {
  let spec = first;
  let gone = false;
  const plot = element("div", { class: "lines-plot" });
  host.append(plot);

  async function redraw() {
    const plotly = await loadPlotly();
    if (gone || !host.isConnected) return;
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
    if (gone) return;
    plot.removeAllListeners?.("plotly_click");
    plot.on("plotly_click", ({ points: [{ pointIndex }] }) => spec.onPoint?.(pointIndex));
    plot.dataset.drawn = String(Number(plot.dataset.drawn ?? 0) + 1);
  }

  const stop = follow(host, redraw);
  redraw();
  return {
    update(next) {
      spec = next;
      redraw();
    },
    destroy() {
      gone = true;
      stop();
      window.Plotly?.purge(plot);
    },
  };
}

/**
 * A vector as a strip of signed colours, `perRow` numbers a row: blue below zero, orange above, range ± the largest
 * size. The number under the pointer, or under the arrow keys, stands below.
 */
export function strip(values, { name, perRow = 64 } = {}) {
  const largest = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const range = largest || 1;
  const columns = Math.min(perRow, values.length);
  const rows = Math.ceil(values.length / columns);
  const canvas = element("canvas", {
    class: "strip", tabindex: "0", role: "img", vars: { rows },
    "aria-label": `${name}: ${values.length} numbers between ${number(-range, 3)} and ${number(range, 3)}. Arrow keys walk.`,
    onpointermove: (event) => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * columns);
      show(Math.floor(((event.clientY - box.top) / box.height) * rows) * columns + column);
    },
    onkeydown: (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      if (move === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      show(at + move);
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
    element("figcaption", {}, name), canvas, said,
    legend("diverging", [number(-range, 3), number(range, 3)]),
  );
}

/**
 * One cell per layer and head: `values` [layers × heads] on the sequential scale from `range[0]` to `range[1]`; a
 * click or arrow keys choose. Returns the canvas.
 */
export function headGrid({ values, layers, heads, range, selected, onPick, name }) {
  const canvas = element("canvas", {
    class: "head-grid", tabindex: "0", role: "img", "data-focus": "head-grid", vars: { layers, heads },
    "aria-label": `${name}, ${layers} layers across and ${heads} heads down. Arrow keys choose layer and head; now layer ${selected.layer}, head ${selected.head}.`,
    onclick: (event) => {
      const box = canvas.getBoundingClientRect();
      pick(Math.floor(((event.clientX - box.left) / box.width) * layers), Math.floor(((event.clientY - box.top) / box.height) * heads));
    },
    onkeydown: (event) => {
      const move = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
      if (!move) return;
      event.preventDefault();
      event.stopPropagation();
      pick(selected.layer + move[0], selected.head + move[1]);
    },
  });
  function pick(layer, head) {
    if (layer >= 0 && layer < layers && head >= 0 && head < heads) onPick(layer, head);
  }
  const span = range[1] - range[0] || 1;
  painted(canvas, layers, heads, "sequential", (layer, head) => (values[layer * heads + head] - range[0]) / span);
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
export function maskSquare({ size, row }) {
  const canvas = element("canvas", {
    class: "mask-square", role: "img", "aria-label": `${size} queries down and ${size} keys across; query ${row} may look at keys 0 to ${row}`,
  });
  painted(canvas, size, size, "sequential", (column, at) => (column > at ? 0.04 : at === row ? 1 : 0.45));
  return element("figure", { class: "strip-figure" }, canvas,
    element("figcaption", {}, `Filled: allowed. Dark: the row of the query at position ${row}. Rows are queries, columns are keys.`));
}
