/** Technical terms that explain themselves on hover, focus and tap. */

import { element } from "./dom.js";
import { page } from "./page-data.js";

const { terms } = page;
// Whole words, singular or plural; not what is quoted, which is somebody's own text.
const names = Object.keys(terms).sort((a, b) => b.length - a.length).join("|");
const TERM = new RegExp(`“[^”]*”|(?<![\\p{L}-])(${names})(?:e?s)?(?![\\p{L}-])`, "giu");

/** The text with the first mention of each term bearing its meaning; focus shows it too, and so a tap. */
export function explained(text) {
  const told = new Set();
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(TERM)) {
    const name = match[1]?.toLowerCase();
    if (name === undefined || told.has(name)) continue;
    told.add(name);
    parts.push(text.slice(from, match.index), element(
      "dfn", { class: "term", tabindex: "0", "data-meaning": terms[name], "aria-description": terms[name] }, match[0],
    ));
    from = match.index + match[0].length;
  }
  return [...parts, text.slice(from)];
}
