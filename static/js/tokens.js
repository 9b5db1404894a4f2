/**
 * How a token looks, everywhere on the page. A token is `{position, id, text, kind, source?}`: its text is exact, with
 * `\xNN` for bytes that are only part of a character (kind "byte piece").
 *
 * Blank characters are shown by marks and copied as themselves. Tokens are told apart by position, never by text.
 */

import { element } from "./dom.js";

const MARKS = { " ": "·", "\n": "↵", "\t": "⇥", "\r": "␍", "\u00a0": "⍽" };
const HIDDEN = /[\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]/; // has no ink of its own
const BLANK = new RegExp(`([ \\n\\t\\r\\u00a0]|${HIDDEN.source})`);
const BYTE = /\\x([0-9a-f]{2})/gi;

/** The mark of a blank or inkless character; undefined for any other text. */
function markOf(part) {
  return MARKS[part] ?? (part.length === 1 && HIDDEN.test(part) ? `U+${part.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}` : undefined);
}

/** The token as one line of plain text with marks: for axis ticks, titles and options. */
export function label(token) {
  return token.text.split(BLANK).map((part) => markOf(part) ?? part).join("") || "(empty)";
}

/** The token at a position; a stand-in that names the position alone where the page was not sent it (long prompts). */
export function tokenAt({ tokens, numPromptTokens, steps }, position) {
  const index = position < numPromptTokens ? position : tokens.length - steps.length + position - numPromptTokens;
  const token = tokens[index];
  return token?.position === position ? token : { position, id: null, text: "…", kind: "unknown" };
}

/** The tokens at positions `from` to `to` − 1. */
export function tokensBetween(context, from, to) {
  return Array.from({ length: to - from }, (_, index) => tokenAt(context, from + index));
}

/** Plain text for a chart that reads markup in its labels. */
export function markup(text) {
  return text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/** Real text of consecutive tokens: bytes split over tokens are put together again. */
export function joinedText(tokens) {
  const bytes = [];
  for (const { text, kind } of tokens) {
    let from = 0;
    if (kind === "byte piece") {
      for (const match of text.matchAll(BYTE)) {
        bytes.push(...new TextEncoder().encode(text.slice(from, match.index)), Number.parseInt(match[1], 16));
        from = match.index + match[0].length;
      }
    }
    bytes.push(...new TextEncoder().encode(text.slice(from)));
  }
  return new TextDecoder().decode(new Uint8Array(bytes));
}

function content(token) {
  return token.text.split(BLANK).filter(Boolean).map((part) => {
    const mark = markOf(part);
    return mark ? element("span", { class: "token-mark" }, mark) : part;
  });
}

/**
 * One token as a chip. With `onclick` it is a button, and `selected` says so to screen readers; `note` stands small
 * beside the text (an id, a probability).
 */
export function chip(token, { onclick, selected, note, joined, title, focus } = {}) {
  const attributes = {
    class: `token${joined ? " token-joined" : ""}${selected ? " token-selected" : ""}`,
    "data-kind": token.kind,
    "data-source": token.source,
    "data-position": token.position,
    title: title ?? describe(token),
  };
  const children = [
    element("bdi", { class: "token-text" }, content(token)),
    note !== undefined && element("span", { class: "token-note" }, note),
  ];
  if (!onclick) return element("span", attributes, children);
  return element(
    "button",
    { ...attributes, type: "button", onclick, "aria-pressed": String(Boolean(selected)), "data-focus": focus },
    children,
  );
}

/** What a pointer resting on the token is told. */
export function describe(token) {
  const where = token.position === undefined ? "" : `position ${token.position}, `;
  return `${where}id ${token.id}${token.kind ? `, ${token.kind}` : ""}${token.source ? `, from ${token.source}` : ""}`;
}

/**
 * A run of consecutive tokens. Copying from it gives the real text, whatever the marks; pieces of one character are
 * drawn joined, with what they make behind them. `options(token)` gives each chip's options.
 */
export function chips(tokens, options = () => ({})) {
  const shown = tokens.map((token, index) =>
    chip(token, {
      joined: token.kind === "byte piece" && tokens[index - 1]?.kind === "byte piece",
      ...options(token),
    }),
  );
  return element("div", { class: "tokens", dir: "auto", oncopy: (event) => copyText(event, shown, tokens) }, joined(shown, tokens));
}

/** The chips, with runs of split characters put together. */
function joined(shown, tokens) {
  const parts = [];
  for (let from = 0; from < tokens.length; ) {
    let to = from + 1;
    if (tokens[from].kind === "byte piece") while (tokens[to]?.kind === "byte piece") to += 1;
    const run = shown.slice(from, to);
    const whole = joinedText(tokens.slice(from, to));
    const isWhole = run.length > 1 && !whole.includes("\ufffd"); // a character may still be unfinished
    parts.push(isWhole ? element("span", { class: "token-run" }, run, element("bdi", { class: "token-whole", "aria-hidden": "true" }, whole)) : run);
    from = to;
  }
  return parts;
}

function copyText(event, shown, tokens) {
  const selection = document.getSelection();
  const picked = tokens.filter((_, index) => selection.containsNode(shown[index], true));
  if (picked.length === 0) return;
  event.clipboardData.setData("text/plain", joinedText(picked));
  event.preventDefault();
}

/** The token of an id that stands at no position (a candidate, a neighbour), with the text the service gave for it. */
export function named(id, texts) {
  const text = texts?.[id];
  return { id, text: text ?? `id ${id}`, kind: text !== undefined && /\\x[0-9a-f]{2}/i.test(text) ? "byte piece" : undefined };
}
