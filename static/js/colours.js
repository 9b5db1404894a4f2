/** The page's data colours, read from the style sheet, so that light, dark and high contrast have their own. */

const STEPS = 256;

function parse(colour) {
  const digits = colour.trim().slice(1);
  return [0, 2, 4].map((from) => Number.parseInt(digits.slice(from, from + 2), 16));
}

/**
 * A scale as a function from [0, 1] to [red, green, blue]. `name` is "sequential" (weights, probabilities) or
 * "diverging" (signed values, 0.5 is zero). Values outside are drawn at the ends.
 */
export function scale(name) {
  const stops = getComputedStyle(document.documentElement).getPropertyValue(`--scale-${name}`).split(",").map(parse);
  const table = Array.from({ length: STEPS }, (_, index) => {
    const at = (index / (STEPS - 1)) * (stops.length - 1);
    const left = Math.min(stops.length - 2, Math.floor(at));
    return stops[left].map((part, channel) => Math.round(part + (stops[left + 1][channel] - part) * (at - left)));
  });
  return (share) => table[Math.max(0, Math.min(STEPS - 1, Math.round(share * (STEPS - 1))))];
}

/** The scale as Plotly wants it. */
export function plotlyScale(name) {
  const colour = scale(name);
  return Array.from({ length: 17 }, (_, index) => [index / 16, `rgb(${colour(index / 16).join(",")})`]);
}

/** One custom property of the theme, as text. */
export function themed(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Call back when the theme changes, by the system or by the page's switch; returns the way to stop. */
export function onThemeChange(callback) {
  const queries = ["(prefers-color-scheme: dark)", "(prefers-contrast: more)"].map((query) => matchMedia(query));
  queries.forEach((query) => query.addEventListener("change", callback));
  const observer = new MutationObserver(callback);
  observer.observe(document.documentElement, { attributeFilter: ["data-theme", "data-contrast"] });
  return () => {
    queries.forEach((query) => query.removeEventListener("change", callback));
    observer.disconnect();
  };
}

/** Paint `share(column, row)` ∈ [0, 1], or null for "no cell", one pixel a cell. */
export function paint(canvas, columns, rows, name, share) {
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
