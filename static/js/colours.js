/** The page's data colours, read from the style sheet, so that light, dark and high contrast have their own. */

const STEPS = 256;
const STOPS = {
  sequential: ["data-low", "data-middle", "data-high"],
  diverging: ["data-negative", "data-zero", "data-positive"],
};

const tables = new Map(); // scale name → 256 colours of the present theme
const listeners = new Set();
const pictures = new WeakMap(); // canvas → what it was painted with

/** A colour of the theme as the browser resolves it: `rgb(…)`. */
export function themed(name) {
  const probe = document.createElement("span");
  probe.style.setProperty("color", `var(--${name})`);
  if (name.startsWith("data-")) probe.style.setProperty("forced-color-adjust", "none"); // the system's one colour would say nothing
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

function build(name) {
  const stops = STOPS[name].map((stop) => themed(stop).match(/\d+/g).slice(0, 3).map(Number));
  return Array.from({ length: STEPS }, (_, index) => {
    const at = (index / (STEPS - 1)) * (stops.length - 1);
    const left = Math.min(stops.length - 2, Math.floor(at));
    return stops[left].map((part, channel) => Math.round(part + (stops[left + 1][channel] - part) * (at - left)));
  });
}

/**
 * A scale as a function from [0, 1] to [red, green, blue]. `name` is "sequential" (weights, probabilities) or
 * "diverging" (signed values, 0.5 is zero). Values outside are drawn at the ends.
 */
export function scale(name) {
  if (!tables.has(name)) tables.set(name, build(name));
  const table = tables.get(name);
  return (share) => table[Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))))];
}

/** The scale as Plotly wants it. */
export function plotlyScale(name) {
  const colour = scale(name);
  return Array.from({ length: 17 }, (_, index) => [index / 16, `rgb(${colour(index / 16).join(",")})`]);
}

/** Call back when the theme changes, by the system or by the page's switch; returns the way to stop. */
export function onThemeChange(callback) {
  listeners.add(callback);
  return () => listeners.delete(callback);
}

function themeChanged() {
  tables.clear();
  for (const canvas of document.querySelectorAll("canvas")) if (pictures.has(canvas)) paint(canvas, ...pictures.get(canvas));
  listeners.forEach((callback) => callback());
}

for (const query of ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"]) {
  matchMedia(query).addEventListener("change", themeChanged);
}
new MutationObserver(themeChanged).observe(document.documentElement, { attributeFilter: ["data-theme"] });

/**
 * Paint `share(column, row)` ∈ [0, 1], or null for "no cell", one pixel a cell, and again when the theme changes.
 * Arguments after the canvas: columns, rows, name of the scale, share.
 */
export function painted(canvas, ...picture) {
  pictures.set(canvas, picture);
  paint(canvas, ...picture);
}

function paint(canvas, columns, rows, name, share) {
  canvas.width = columns;
  canvas.height = rows;
  const colour = scale(name);
  const brush = canvas.getContext("2d");
  const image = brush.createImageData(columns, rows);
  for (let row = 0, at = 0; row < rows; row += 1) {
    for (let column = 0; column < columns; column += 1, at += 4) {
      const part = share(column, row);
      if (part === null) continue;
      image.data.set(colour(part), at);
      image.data[at + 3] = 255;
    }
  }
  brush.putImageData(image, 0, 0);
}
