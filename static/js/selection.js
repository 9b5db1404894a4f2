/**
 * What the reader looks at: page (null: the stages), stage, step, layer, head, position and key. It lives in the store
 * and in the address (`#stage=softmax&layer=14&head=4&step=7`, `#page=table&stage=…`), so that a link restores exactly
 * what was seen. `response` is the answer that is looked into, `with` the one it is compared with.
 *
 * Only what was chosen is kept. `resolve` fills the rest: the newest step that shows something, the middle layer and head, and the position
 * whose state predicted the step's token. The key is the position that a query is compared with; null where none was
 * chosen.
 */

import { get, set } from "./store.js";

/** Pages beside the stages. */
export const PAGES = ["reading", "table", "embeddings", "meaning", "training", "misconceptions", "compare", "numbers"];
const NUMBERS = ["layer", "head", "step", "position", "key"];

/** Read the address. Unknown stages and anything that is not a whole number are left out. */
export function fromHash(hash, slugs) {
  const parameters = new URLSearchParams(hash.replace(/^#/, ""));
  const stage = parameters.get("stage");
  const page = parameters.get("page");
  const selection = {
    page: PAGES.includes(page) ? page : null, stage: slugs.has(stage) ? stage : "request", response: parameters.get("response"),
    with: parameters.get("with"),
  };
  for (const name of NUMBERS) {
    const text = parameters.get(name);
    selection[name] = text !== null && /^\d{1,6}$/.test(text) ? Number(text) : null;
  }
  return selection;
}

export function toHash(selection) {
  const parameters = new URLSearchParams({ ...(selection.page && { page: selection.page }), stage: selection.stage });
  for (const name of [...NUMBERS, "response", "with"]) {
    if (selection[name] !== null && selection[name] !== undefined) parameters.set(name, selection[name]);
  }
  return `#${parameters}`;
}

/**
 * Change the selection and the address. Going to another page or stage is a step in the browser's history; moving
 * within one is not. Choosing a stage leaves the page; a newly chosen step takes the position with it, unless both are
 * given.
 */
export function select(changes) {
  const before = get().selection;
  const selection = { ...before, ...changes };
  if ("stage" in changes && !("page" in changes)) selection.page = null;
  if ("step" in changes && !("position" in changes)) selection.position = null;
  const address = location.pathname + toHash(selection);
  if (selection.stage === before.stage && selection.page === before.page) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  set({ selection });
}

/**
 * How many positions can be looked at: those whose next token is known. What chose a token stays closed until the
 * token is released, and the newest token has not been read by the model yet.
 */
export function numPositions(numPromptTokens, steps) {
  return Math.max(0, numPromptTokens + steps.length - 1);
}

/** The newest step; at the end of an answer the one before the end token, which says nothing. */
function newestStep(steps) {
  const last = steps.length - 1;
  const silent = last > 0 && steps[last].text === "" && steps[last].held_bytes === 0;
  return silent ? last - 1 : last;
}

/** The selection with every open choice filled, as far as there is something to choose from. */
export function resolve({ selection, steps, model, response }) {
  const clamp = (value, size) => Math.max(0, Math.min(value, size - 1));
  const step = steps.length === 0 ? null : clamp(selection.step ?? newestStep(steps), steps.length);
  const numPromptTokens = response?.numPromptTokens ?? 0;
  const size = numPositions(numPromptTokens, steps);
  const newest = size > 0 ? numPromptTokens - 1 + (step ?? -1) : null;
  const position = selection.position !== null && size > 0 ? clamp(selection.position, size) : newest;
  return Object.freeze({
    stage: selection.stage,
    step,
    layer: model ? clamp(selection.layer ?? Math.floor((model.n_layers - 1) / 2), model.n_layers) : null,
    head: model ? clamp(selection.head ?? Math.floor(model.n_heads / 2), model.n_heads) : null,
    position,
    key: selection.key === null || selection.key === undefined || position === null ? null : clamp(selection.key, position + 1),
  });
}
