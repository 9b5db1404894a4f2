/** Layer, head, step and position of the open stage: a slider and two buttons each, and the keyboard's arrows. */

import { element, setText } from "./dom.js";
import { iconButton } from "./icons.js";
import { numPositions, select } from "./selection.js";
import { label } from "./tokens.js";

const ORDER = ["layer", "head", "position"];

/** `update(uses, context)` shows the pickers that matter to the stage. The step has the scrubber. */
export function createPickers() {
  const node = element("div", { class: "pickers", role: "group", "aria-label": "What is shown", hidden: true });
  const pickers = new Map(ORDER.map((name) => [name, createPicker(name)]));
  node.append(...[...pickers.values()].map((picker) => picker.node));
  return {
    node,
    update(uses, context) {
      let shown = 0;
      for (const [name, picker] of pickers) {
        const size = uses.includes(name) ? sizeOf(name, context) : 0;
        picker.node.hidden = size === 0;
        if (size > 0) picker.update(context.selection[name], size, noteFor(name, context));
        shown += size > 0;
      }
      node.hidden = shown === 0;
    },
  };
}

/** The pickers of `uses` above a picture, once the model has read something; until then the words `unread(context)`. */
export function withPickers(uses, picture, unread) {
  return (host, context) => {
    const pickers = createPickers();
    const box = element("div", { class: "stage-picture" });
    host.append(pickers.node, box);
    const life = picture(box, context);
    const update = (next) => {
      const isRead = next.selection.position !== null;
      pickers.update(isRead ? uses : [], next);
      if (!isRead) box.replaceChildren(element("p", { class: "note" }, unread(next)));
      life.update(next);
    };
    update(context);
    return { ...life, update };
  };
}

function sizeOf(name, { model, numPromptTokens, steps, response }) {
  if (response === null) return 0;
  if (name === "layer") return model?.n_layers ?? 0;
  if (name === "head") return model?.n_heads ?? 0;
  return numPositions(numPromptTokens, steps);
}

/** The token read at the position and, where the answer went on from it, the token chosen there. */
function noteFor(name, { tokens, selection, numPromptTokens, steps }) {
  if (name !== "position") return "";
  const token = tokens.find(({ position }) => position === selection.position);
  const chosen = steps[selection.position - numPromptTokens + 1];
  return [token, chosen && { text: chosen.token_text }].filter(Boolean).map(label).join(" → ");
}

function createPicker(name) {
  const value = element("output", { class: "picker-value" });
  const note = element("bdi", { class: "picker-note mono" });
  const slider = element("input", {
    type: "range", min: 0, step: 1, "aria-label": name, oninput: () => choose(Number(slider.value)),
  });
  const choose = (chosen) => {
    if (chosen >= 0 && chosen <= Number(slider.max)) select({ [name]: chosen });
  };
  const less = iconButton("back", `Previous ${name}`, { onclick: () => choose(Number(slider.value) - 1) });
  const more = iconButton("forward", `Next ${name}`, { onclick: () => choose(Number(slider.value) + 1) });
  const node = element(
    "div",
    { class: "picker", "data-picker": name },
    element("span", { class: "picker-name" }, name), less, slider, more, value, note,
  );
  return {
    node,
    update(chosen, size, text) {
      slider.max = String(size - 1);
      slider.value = String(chosen ?? 0);
      slider.setAttribute("aria-valuetext", `${chosen} of 0 to ${size - 1} ${text}`.trim());
      less.disabled = chosen === 0;
      more.disabled = chosen === size - 1;
      setText(value, `${chosen} of 0–${size - 1}`);
      setText(note, text);
    },
  };
}
