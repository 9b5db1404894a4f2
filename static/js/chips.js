/**
 * The tokens of an answer as chips under it: the probability the model gave each one, as shade and as the height of
 * the line beneath. New ones are appended; a chip that stands is never drawn again.
 */

import { bringIntoBox, element, setText } from "./dom.js";
import { percent } from "./format.js";
import { isActive } from "./record.js";
import { select } from "./selection.js";
import { look } from "./conversation.js";
import { get } from "./store.js";
import { chip, label, named } from "./tokens.js";

const PER_FRAME = 120; // chips made in one frame when a long answer is opened

const OFFERED = 6; // other tokens to branch with

/** `branch(step, token)` asks for the answer that goes on from another token; null where one can only read. */
export function createChips(record, branch) {
  const row = element("div", { class: "tokens answer-tokens", dir: "auto" });
  const detail = element("p", { class: "chip-detail" });
  const others = element("div", { class: "alternatives", role: "group", "aria-label": "Branch with another token", hidden: true });
  const node = element(
    "section",
    { class: "chips", hidden: true, "aria-label": "Tokens of the answer" },
    row,
    detail,
    others,
  );
  let chosen = null;
  let next = 0; // the frame in which more chips are made
  let offered = null; // the step whose alternatives are offered

  row.addEventListener("click", ({ target }) => {
    const index = indexOf(row, target);
    if (index === null) return;
    if (get().response !== record) look(record);
    select({ step: index });
  });
  row.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const index = indexOf(row, event.target);
    if (by === undefined || index === null) return;
    event.preventDefault();
    const forward = getComputedStyle(row).direction === "rtl" ? -by : by;
    row.children[index + forward]?.focus();
  });
  for (const type of ["pointerover", "focusin"]) {
    row.addEventListener(type, ({ target }) => {
      const index = indexOf(row, target);
      if (index !== null) setText(detail, describe(record.steps[index]));
    });
  }

  for (const type of ["pointerleave", "focusout"]) row.addEventListener(type, showChosen); // what was pointed at is left

  function showChosen() {
    setText(detail, chosen === null ? "" : describe(record.steps[Number(chosen.dataset.step)]));
  }

  function refresh(inView) {
    node.hidden = record.steps.length === 0;
    append();
    const step = inView ? get().selection.step : null;
    offer(isActive(record) || branch === null ? null : record.steps[step] ?? null);
    const made = step === null ? null : row.children[step] ?? null;
    if (made === chosen) return;
    mark(chosen, false);
    mark(made, true);
    chosen = made;
    if (made === null) return;
    showChosen();
    bringIntoBox(row, made);
  }

  function offer(step) {
    if (step === offered) return;
    offered = step;
    others.hidden = step === null;
    if (step === null) return;
    const rows = step.candidates.filter(([id]) => id !== step.token).slice(0, OFFERED);
    others.replaceChildren("Go on with another token: ", ...rows.map(([id, text, , raw]) =>
      chip(named(id, { [id]: text }), { note: percent(raw, 2), onclick: () => branch(step.step, id), title: `answer on from step ${step.step} with this token` })));
  }

  function append() {
    cancelAnimationFrame(next); // one run of them, however often there is something new meanwhile
    const have = row.children.length;
    while (row.children.length > record.steps.length) row.lastChild.remove();
    if (have >= record.steps.length) return;
    const upTo = Math.min(record.steps.length, have + PER_FRAME);
    const offset = record.tokens.length - record.steps.length;
    const chips = document.createDocumentFragment();
    for (let index = have; index < upTo; index += 1) chips.append(stepChip(record, record.tokens, offset, index));
    row.append(chips);
    if (upTo < record.steps.length) next = requestAnimationFrame(append);
  }

  return { node, refresh };
}

function stepChip(record, tokens, offset, index) {
  const token = tokens[offset + index];
  const step = record.steps[index];
  const isPiece = token.kind === "byte piece";
  const made = chip(token, {
    onclick: () => {},
    joined: isPiece && index > 0 && tokens[offset + index - 1].kind === "byte piece",
    title: `step ${index}, ${percent(probability(step))}${step.given ? ", given" : ""}`,
  });
  made.tabIndex = index === 0 ? 0 : -1;
  made.dataset.step = index;
  made.classList.toggle("token-given", step.given);
  made.style.setProperty("--probability", probability(step).toFixed(3));
  return made;
}

function probability(step) {
  return step.raw_logprob === null ? 0 : Math.exp(step.raw_logprob);
}

function describe(step) {
  const others = step.candidates
    .filter(([id]) => id !== step.token)
    .slice(0, 3)
    .map(([id, text, , raw]) => `${label(named(id, { [id]: text }))} ${percent(raw)}`);
  const rest = others.length > 0 ? `; instead: ${others.join(", ")}` : "";
  return `step ${step.step}: ${label({ text: step.token_text })} ${percent(probability(step))}, rank ${step.rank}${step.given ? ", given by a branch" : ""}${rest}`;
}

function mark(made, isChosen) {
  if (made === null) return;
  made.classList.toggle("token-selected", isChosen);
  made.setAttribute("aria-pressed", String(isChosen));
}

function indexOf(row, target) {
  const made = target.closest("[data-step]");
  return made !== null && row.contains(made) ? Number(made.dataset.step) : null;
}
