/** Step by step through the answer's tokens: slider, one back, one forward, play at reading speed. */

import { createToggle } from "./breakpoints.js";
import { element, setText } from "./dom.js";
import { count } from "./format.js";
import { icon, iconButton } from "./icons.js";
import { isActive } from "./record.js";
import { resolve, select } from "./selection.js";
import { get, subscribe } from "./store.js";
import { label } from "./tokens.js";

const PLAY_MS = 700;

/** `choices` is what else stands in its row. */
export function mountScrubber(host, choices) {
  const slider = element("input", { type: "range", min: 0, step: 1, "aria-label": "Step", oninput: () => go(Number(slider.value)) });
  const back = iconButton("back", "Previous step", { onclick: () => go(Number(slider.value) - 1) });
  const forward = iconButton("forward", "Next step", { onclick: () => go(Number(slider.value) + 1) });
  const play = iconButton("play", "Play the steps", { onclick: toggle });
  const newest = element("button", { type: "button", class: "quiet", onclick: () => { pause(); select({ step: null }); } }, "Newest");
  choices.prepend(newest); // together, so that a row that wraps does so whether it is there or not
  const hold = createToggle("Hold the next request after this step", () => ({ step: Number(slider.value) }));
  const place = element("output", { class: "scrubber-place" });
  const token = element("bdi", { class: "scrubber-token mono" });
  const node = element(
    "div",
    { class: "scrubber", role: "group", "aria-label": "Steps of the answer", hidden: true },
    back, play, forward, slider, place, token, hold.node, choices,
  );
  host.append(node);
  let timer = null;

  function go(step) {
    pause();
    if (step >= 0 && step <= Number(slider.max)) select({ step });
  }

  function toggle() {
    if (timer !== null) return pause();
    if (Number(slider.value) === Number(slider.max)) select({ step: 0 });
    timer = setInterval(() => {
      const next = (resolve(get()).step ?? 0) + 1;
      if (next >= get().steps.length) pause();
      else select({ step: next });
    }, PLAY_MS);
    showPlaying(true);
  }

  function pause() {
    clearInterval(timer);
    timer = null;
    showPlaying(false);
  }

  function showPlaying(isPlaying) {
    play.setAttribute("aria-label", isPlaying ? "Pause" : "Play the steps");
    play.replaceChildren(icon(isPlaying ? "pause" : "play"));
  }

  subscribe(["steps", "selection", "response", "breakpoints"], (state) => {
    const { steps, selection, response } = state;
    node.hidden = steps.length === 0;
    if (steps.length === 0) return pause();
    const { step } = resolve(state);
    slider.max = String(steps.length - 1);
    slider.value = String(step);
    const text = label({ text: steps[step].token_text });
    slider.setAttribute("aria-valuetext", `step ${step} of 0 to ${steps.length - 1}, ${text}`);
    back.disabled = step === 0;
    forward.disabled = step === steps.length - 1;
    newest.hidden = selection.step === null || !isActive(response);
    setText(place, `step ${count(step)} of 0–${count(steps.length - 1)}`);
    setText(token, text);
    hold.refresh();
  });
}
