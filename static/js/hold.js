/**
 * Pausing: where the next request is to be held, and the request that is held now, with what can be done about it: run
 * goes on to the next breakpoint that is set. When a hold begins, the page turns to the stage where the request stands.
 */

import { firstAfter, isSet, placeName, toggle } from "./breakpoints.js";
import { element, setText } from "./dom.js";
import { wait } from "./format.js";
import * as responses from "./responses.js";
import { select } from "./selection.js";
import { get, set, subscribe } from "./store.js";

const TICK_MS = 500;

export function mountHold(host) {
  const words = element("strong", { role: "status" });
  const left = element("span", { class: "soft" });
  const act = (label, run, kind) => element("button", { type: "button", class: kind, onclick: run }, label);
  const run = () => {
    const { response } = get();
    responses.proceed(response, firstAfter(response.held) ?? "end");
    select({ step: null }); // follow it again
  };
  const buttons = [
    act("Next", () => responses.proceed(get().response, "next"), "primary"), act("Run", run), act("Stop", () => responses.cancel(get().response)),
  ];
  const held = element("div", { class: "hold", role: "group", "aria-label": "The request that is held", hidden: true }, words, left, element("span", { class: "hold-actions" }, buttons));
  const chosen = element("span", { class: "hold-actions" });
  const step = element("input", { type: "number", min: 0, step: 1, "aria-label": "Step to hold after", placeholder: "step" });
  const points = element(
    "form", { class: "hold", role: "group", "aria-label": "Breakpoints", hidden: true, onsubmit: addStep },
    element("span", {}, "The next request is held after"), chosen, step, element("button", { type: "submit" }, "Add a step"),
    act("Clear", () => set({ breakpoints: [] })),
  );
  host.append(held, points);
  let shown = null; // the hold that the page has turned to
  let timer = null;

  function addStep(event) {
    event.preventDefault();
    if (step.value === "") return;
    if (!isSet({ step: step.valueAsNumber })) toggle({ step: step.valueAsNumber });
    step.value = "";
  }

  function refresh() {
    clearTimeout(timer);
    const hold = get().response?.held ?? null;
    held.hidden = hold === null;
    if (hold !== null) {
      setText(words, `Held after ${placeName(hold)}`);
      const seconds = Math.max(0, (hold.releasesAt - performance.now()) / 1000);
      setText(left, `Others run on. It goes on by itself in ${wait(seconds)}.`);
      for (const button of buttons) button.disabled = hold.asked !== null;
      timer = setTimeout(refresh, TICK_MS);
    }
    if (hold !== null && hold !== shown) select({ stage: hold.stage, step: hold.step });
    shown = hold;
  }
  subscribe(["response"], refresh);

  subscribe(["breakpoints"], ({ breakpoints }) => {
    points.hidden = breakpoints.length === 0;
    const names = breakpoints.map(placeName);
    chosen.replaceChildren(...breakpoints.map((point, index) => element(
      "button", { type: "button", title: "Take this breakpoint back", "aria-label": `Take back the breakpoint ${names[index]}`, onclick: () => toggle(point) }, `${names[index]} ×`,
    )));
  });
}
