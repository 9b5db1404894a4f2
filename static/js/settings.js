/**
 * The settings of the next answer: how tokens are chosen, and the instructions. A conversation keeps both; a new one
 * begins with what this browser used last, without instructions.
 */

import { button, element, mark, setText } from "./dom.js";
import { icon } from "./icons.js";
import { subscribe } from "./store.js";
import { read, write } from "./stored.js";

const KEY = "sampling";
const MODEL_KEY = "model";

/**
 * `step` is what the field's arrows add; `empty` the value of an empty field. The limits are the service's to state:
 * here only what is not a number at all is caught.
 */
const FIELDS = [
  { name: "temperature", label: "Temperature", help: "0 always takes the most probable token", step: 0.1 },
  { name: "top_k", label: "Top-k", help: "keep the k most probable; 0 is off", step: 1 },
  { name: "top_p", label: "Top-p", help: "keep the most probable up to this mass; 1 is off", step: 0.05 },
  { name: "min_p", label: "Min-p", help: "keep what has this share of the best; 0 is off", step: 0.05 },
  { name: "repetition_penalty", label: "Repetition penalty", help: "1 is off", step: 0.1 },
  { name: "presence_penalty", label: "Presence penalty", help: "0 is off", step: 0.1 },
  { name: "frequency_penalty", label: "Frequency penalty", help: "0 is off", step: 0.1 },
  { name: "max_tokens", label: "Longest answer", help: "tokens", step: 1 },
  { name: "seed", label: "Seed", help: "the same seed draws the same tokens; empty draws a new one", step: 1, empty: null },
];

/** `options()` → {sampling, instructions}; `fault()` → the first wrong field's message or null. */
export function createSettings({ defaults, maxTokens }) {
  const rows = new Map(FIELDS.map((field) => [field.name, createRow(field, changed)]));
  const stop = element("textarea", { rows: 2, id: "setting-stop", "aria-describedby": "setting-stop-error" });
  stop.addEventListener("input", changed);
  const stopError = element("p", { class: "field-error", id: "setting-stop-error", role: "alert" });
  let stated = {}; // by the chosen model's checkpoint: its own defaults
  let known = [];
  const models = element("select", { id: "setting-model", onchange() { write(MODEL_KEY, models.value); follow(); } });
  const modelRow = element("div", { class: "setting wide", hidden: true }, element("label", { for: "setting-model" }, "Model"), models);
  subscribe(["models"], ({ models: found }) => {
    known = found;
    const names = ["auto", ...known.map(({ name }) => name)];
    const chosen = names.includes(read(MODEL_KEY)) ? read(MODEL_KEY) : "auto";
    models.replaceChildren(...names.map((name) => element("option", { value: name }, name === "auto" && known.length ? `auto: ${known[0].name}` : name)));
    models.value = chosen;
    modelRow.hidden = known.length < 2;
    follow();
  });
  const instructions = element("textarea", { rows: 3, dir: "auto", id: "setting-instructions" });
  const summary = element("span", { class: "settings-summary" });
  const panel = element(
    "div",
    { class: "settings-panel" },
    modelRow,
    element("div", { class: "setting wide" }, element("label", { for: "setting-instructions" }, "Instructions for this conversation (system prompt)"), instructions),
    [...rows.values()].map(({ node }) => node),
    element("div", { class: "setting wide" }, element("label", { for: "setting-stop" }, "Stop strings, one a line"), stop, stopError),
    button("Back to the defaults", reset, { class: "quiet" }),
  );
  const node = element(
    "details", { class: "settings" }, element("summary", { title: "Settings of the next answer" }, icon("settings"), summary), panel,
  );
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !node.open) return;
    event.preventDefault();
    node.open = false;
    node.querySelector("summary").focus();
  });

  function sampling() {
    const values = { ...defaults };
    for (const [name, row] of rows) values[name] = row.value();
    values.stop = stop.value.split("\n").filter((line) => line !== "");
    return values;
  }

  /** What differs from the defaults. */
  function choices() {
    const base = { ...defaults, ...stated };
    return Object.fromEntries(Object.entries(sampling()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(base[name])));
  }

  /** What was left at its default goes with the model. */
  function follow() {
    const kept = choices();
    stated = (known.find(({ name }) => name === models.value) ?? known[0])?.sampling ?? {};
    for (const [name, row] of rows) row.tell(stated[name]);
    fill(kept);
  }

  function changed() {
    setText(stopError, "");
    write(KEY, JSON.stringify(choices()));
    summarise();
  }

  function reset() {
    fill({});
    changed();
  }

  function fill(values) {
    for (const field of FIELDS) rows.get(field.name).set(startValue(field, { ...defaults, ...stated }, values, maxTokens));
    stop.value = (values.stop ?? []).join("\n");
    summarise();
  }

  function summarise() {
    const { temperature, top_p: topP, seed } = sampling();
    const parts = Object.entries({ T: temperature, "top-p": topP, seed }).filter(([, value]) => Number.isFinite(value));
    setText(summary, parts.map(([name, value]) => `${name} ${value}`).join(" · "));
  }
  fill(parse(read(KEY)));

  let shownFor = null;
  return {
    node,
    options: () => ({ model: models.value, sampling: sampling(), instructions: instructions.value.trim() }),
    fault: () => [...rows.values()].map((row) => row.fault()).find((fault) => fault !== null) ?? null,
    open() {
      node.open = true;
      panel.querySelector("[aria-invalid='true']")?.focus();
    },
    /** Show the service's complaint at the field it names ("sampling.top_p"). */
    report(name, message) {
      const [, field] = /^sampling\.(\w+)/.exec(name) ?? [];
      if (field === "stop") setText(stopError, message);
      else if (rows.has(field)) rows.get(field).report(message);
      else return;
      this.open();
    },
    show({ key, state, instructions: text, sampling: own }) {
      if (shownFor === key || state !== "ready") return;
      shownFor = key;
      instructions.value = text;
      fill({ ...parse(read(KEY)), ...own });
    },
  };
}

function startValue({ name }, defaults, kept, maxTokens) {
  const value = kept[name] !== undefined ? kept[name] : defaults[name];
  return name === "max_tokens" && value !== null ? Math.min(value, maxTokens) : value;
}

function parse(text) {
  try {
    const value = JSON.parse(text);
    return value !== null && typeof value === "object" ? value : {};
  } catch {
    return {};
  }
}

function createRow({ name, label, help, step, empty }, changed) {
  const id = `setting-${name}`;
  const input = element("input", { id, type: "number", step, "aria-describedby": `${id}-help ${id}-error`, autocomplete: "off" });
  const error = element("p", { class: "field-error", id: `${id}-error`, role: "alert" });
  const helped = element("p", { class: "setting-help", id: `${id}-help` }, help);
  const node = element("div", { class: "setting" }, element("label", { for: id }, label), input, helped, error);
  const tell = (value) => setText(helped, value === undefined ? help : `${help}; this model's default is ${value}`);
  const mayBeEmpty = empty !== undefined;
  const report = (message) => {
    setText(error, message ?? "");
    mark(input, "aria-invalid", message && "true");
  };
  const fault = () => {
    const isEmpty = input.value === "" && !input.validity.badInput;
    const message = (isEmpty ? mayBeEmpty : Number.isFinite(input.valueAsNumber)) ? null : `${label} must be a number.`;
    report(message);
    return message;
  };
  const set = (value) => {
    input.value = value ?? "";
    report(null);
  };
  input.addEventListener("input", () => {
    report(null);
    changed();
  });
  input.addEventListener("change", fault);
  return { node, set, report, fault, tell, value: () => (input.value === "" && mayBeEmpty ? empty : input.valueAsNumber) };
}
