/** What if: the same step with other settings, computed again by the service's own sampler on the same logits. */

import { button, element, setText, swap } from "./dom.js";
import { number, percent } from "./format.js";
import { drawLine, funnel } from "./ledger.js";
import { bar, facts, note, quantity, table } from "./parts.js";
import { folded, followViews } from "./pictures.js";
import { chosenToken } from "./steps.js";
import { chip, label, named } from "./tokens.js";

const DEBOUNCE_MS = 15; // one question for a slider's quick moves
const PREFIX = "what-if-";

/** `max` is where the slider ends; the field beside it takes any number, and the service states the limits. */
const FIELDS = [
  { name: "temperature", title: "Temperature", help: "0 takes the most probable token", min: 0, max: 2, step: 0.05 },
  { name: "top_k", title: "Top-k", help: "0 is off", min: 0, max: 200, step: 1 },
  { name: "top_p", title: "Top-p", help: "1 is off", min: 0.01, max: 1, step: 0.01 },
  { name: "min_p", title: "Min-p", help: "0 is off", min: 0, max: 1, step: 0.01 },
  { name: "seed", title: "Seed", help: "gives the draw its number", step: 1 },
];

/** A folded part of a picture; it is there once there is a step. */
export function whatIf(host, context) {
  const life = folded("what-if", "What if? Other settings for this step", open)(host, context);
  const update = (next) => {
    host.hidden = next.step === null;
    life.update(next);
  };
  update(context);
  return { ...life, update };
}

/** The settings that the step was chosen with; what has been changed of them since is kept from step to step. */
function ownSettings({ step, report }) {
  const of = (name) => step.ledger.filters.find((filter) => filter.name === name).value;
  return { temperature: of("temperature"), top_k: of("top_k"), top_p: of("top_p"), min_p: of("min_p"), seed: report?.data.seed ?? null };
}

function open(host, context) {
  const changed = {};
  let latest = context;
  let timer = 0;
  const rows = FIELDS.map((field) => createRow(field, change));
  const reset = button("Back to this answer's settings", back, { class: "quiet" });
  const said = element("p", { role: "status" });
  const body = element("div", { class: "stage-picture" });
  const picture = element("div", { class: "stage-picture" }, said, body);
  host.append(
    note("Only this step is computed again, on the logits it had. The rest of the answer stays as it was: another token here would have led to another answer."),
    element("div", { class: "what-if-settings", role: "group", "aria-label": "Settings of the what-if" }, rows.map(({ node }) => node), reset),
    picture,
  );
  fill();

  const query = ({ step, selection }) => step && { found: ["what_if", { step: selection.step, ...changed }] };
  const life = followViews(query, ({ found }, { steps }) => {
    const step = steps[found.info.step]; // while the answer grows, the reader may have gone on to another
    const other = asStep(found);
    setText(said, verdict(step, other));
    swap(body, pictures(step, other));
  })(picture, context);

  function change(name, value) {
    if (value === ownSettings(latest)[name]) delete changed[name];
    else changed[name] = value;
    reset.disabled = Object.keys(changed).length === 0;
    clearTimeout(timer);
    timer = setTimeout(life.update, DEBOUNCE_MS);
  }

  function fill() {
    const settings = { ...ownSettings(latest), ...changed };
    for (const { name, show } of rows) show(settings[name]);
    reset.disabled = Object.keys(changed).length === 0;
  }

  function back() {
    for (const name of Object.keys(changed)) delete changed[name];
    fill();
    rows[0].node.querySelector("input").focus(); // the button goes grey under the finger
    life.update();
  }

  return {
    update(next) {
      latest = next;
      life.update(next);
    },
    destroy() {
      clearTimeout(timer);
      life.destroy();
    },
  };
}

/** A slider and a field that follow each other; a seed has the field alone. */
function createRow({ name, title, help, min, max, step }, change) {
  const id = `what-if-${name}`;
  const field = element("input", { id, type: "number", min, step, "aria-describedby": `${id}-help`, autocomplete: "off" });
  const slider = max !== undefined && element("input", { type: "range", min, max, step, "aria-label": `${title}, slider` });
  const take = (from, to) => from.addEventListener("input", () => {
    const value = from.valueAsNumber;
    field.setAttribute("aria-invalid", String(!Number.isFinite(value)));
    if (!Number.isFinite(value)) return;
    if (to) to.value = value;
    change(name, value);
  });
  take(field, slider);
  if (slider) take(slider, field);
  return {
    name,
    node: element("div", { class: "what-if-setting" }, element("label", { for: id }, title), slider, field, element("span", { class: "setting-help", id: `${id}-help` }, help)),
    show(value) {
      field.value = value ?? "";
      field.removeAttribute("aria-invalid");
      if (slider) slider.value = value ?? min;
    },
  };
}

/** The view in the shape of a step. */
function asStep({ info, tensors: { logits, raw_probabilities: raw, probabilities } }) {
  const { token, rank, logprob, ledger, token_texts: texts } = info;
  const rows = info.candidate_ids.map((id, index) => [id, texts[id], logits.data[index], raw.data[index], probabilities.data[index]]);
  return { token, token_text: texts[token], rank, logprob, ledger, candidates: rows };
}

function verdict(step, other) {
  const [before, after] = [step, other].map(({ token_text: text }) => `“${label({ text })}”`);
  const chosen = step.token === other.token ? `Still ${after}.` : `${after} instead of ${before}.`;
  const [old, now] = [step.ledger.draw, other.ledger.draw];
  if (now === null) return `${chosen} The most probable token is taken, without a draw.`;
  if (old === now) return `${chosen} The draw is the same, ${number(now, 4)}: seed and step fix it.`;
  return `${chosen} The draw is ${number(now, 4)}${old === null ? "" : `, no longer ${number(old, 4)}`}.`;
}

function pictures(step, other) {
  const before = new Map(step.candidates.map(([id, , , , final]) => [id, final]));
  const most = Math.max(...before.values(), ...other.candidates.map((row) => row[4]));
  return [
    facts([
      ["would be chosen", chip(chosenToken(other))],
      ["its probability after the filters", quantity(`${PREFIX}probability`, Math.exp(other.logprob), percent)],
      ["its rank before them (0 is the likeliest)", quantity(`${PREFIX}rank`, other.rank, String)],
    ]),
    other.ledger.draw !== null && drawLine(other, PREFIX),
    table({
      name: `${PREFIX}candidates`, caption: `The most probable tokens after the filters; bars run from 0 to ${percent(most)}`,
      columns: ["token", "in the answer", "with these settings"],
      rows: other.candidates.map(([id, text, , , final]) => ({
        selected: id === other.token,
        class: final === 0 ? "row-muted" : "",
        cells: [
          chip(named(id, { [id]: text }), { selected: id === other.token }),
          before.has(id) ? bar(before.get(id) / most, percent(before.get(id))) : "not recorded",
          bar(final / most, quantity(`${PREFIX}probability-${id}`, final, percent), "final"),
        ],
      })),
    }),
    funnel(other.ledger, { before: step.ledger, prefix: PREFIX }),
  ];
}
