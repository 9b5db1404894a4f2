/** The tokens of a long prompt that its report had no room for: read once, before the first picture that may name them. */

import { sourceOf } from "./source.js";

const AT_ONCE = 1024;

const reading = new WeakMap(); // record -> promise

/** Resolves when all tokens of the prompt are there, or cannot be had: then pictures name their positions alone. */
export function wholePrompt(record) {
  const isWhole = record.tokens.length - record.steps.length >= record.numPromptTokens;
  if (isWhole || record.steps.length === 0) return null;
  if (!reading.has(record)) reading.set(record, readOn(record).catch(() => {}));
  return reading.get(record);
}

async function readOn(record) {
  const { tokens, steps } = record;
  for (let from = tokens.length - steps.length; from < record.numPromptTokens; from += AT_ONCE) {
    const to = Math.min(record.numPromptTokens, from + AT_ONCE);
    const { info } = await sourceOf(record).view("tokens", { position_from: from, position_to: to });
    if (record.tokens !== tokens || tokens.length - steps.length !== from) return; // another attempt has begun
    tokens.splice(from, 0, ...info.pieces);
  }
}
