/** What pictures may read of the page's state, frozen: built anew for every change. */

import { wholePrompt } from "./prompt-tokens.js";
import { isActive } from "./record.js";
import { resolve, select } from "./selection.js";
import { sourceOf } from "./source.js";
import { subscribe } from "./store.js";
import { tokenAt } from "./tokens.js";

const STREAMING_REDRAW_MS = 250; // while tokens arrive, open pictures follow this often

/** Call `refresh()` now and whenever what pictures show has changed; while tokens arrive, a few times a second. */
export function followState(refresh) {
  let last = 0;
  let timer = null;
  const now = () => {
    clearTimeout(timer);
    timer = null;
    last = performance.now();
    refresh();
  };
  subscribe(["selection", "stages", "steps", "response", "model", "breakpoints"], ({ response, steps }, changed) => {
    const streaming = response !== null && isActive(response) && steps.length > 0;
    if (!streaming || changed.has("selection")) now();
    else timer ??= setTimeout(now, Math.max(0, STREAMING_REDRAW_MS - (performance.now() - last)));
  });
  now();
}

/** `own` are fields beside the common ones; `noteView(info)` hears of every view that has come. */
export function contextOf(state, own, noteView) {
  const { response, steps, stages, model, models } = state;
  const selection = resolve(state);
  const text = { tokens: response?.tokens ?? [], numPromptTokens: response?.numPromptTokens ?? 0, steps };
  return Object.freeze({
    ...own,
    ...text,
    stages,
    step: selection.step === null ? null : steps[selection.step],
    token: tokenAt(text, selection.position),
    selection,
    model,
    models,
    response,
    select,
    async view(slug, query, options) {
      await wholePrompt(response);
      const view = await sourceOf(response).view(slug, query, options);
      noteView?.(view.info);
      return view;
    },
  });
}
