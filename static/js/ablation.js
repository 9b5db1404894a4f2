/** Ablation: what would come next with some heads, layers or feed-forward blocks switched off, computed by the service. */

import { button, element, setText, swap } from "./dom.js";
import { number, percent } from "./format.js";
import { bar, facts, note, quantity, table } from "./parts.js";
import { folded, followViews } from "./pictures.js";
import { chip, label, named, tokenAt } from "./tokens.js";

/** What can be off: its field in the view's query, its value there, and its name. */
const KINDS = {
  head: { field: "heads", value: ({ layer, head }) => `${layer}:${head}`, title: ({ layer, head }) => `head ${head} of layer ${layer}` },
  feed_forward: { field: "feed_forwards", value: ({ layer }) => `${layer}`, title: ({ layer }) => `feed-forward of layer ${layer}` },
  layer: { field: "layers", value: ({ layer }) => `${layer}`, title: ({ layer }) => `all of layer ${layer}` },
};

/** A part of a picture that offers `kinds`, folded until it is wanted. */
export function ablation(kinds) {
  return folded("ablation", "What if a part were off?", (box, context) => open(box, context, kinds));
}

function open(host, context, kinds) {
  const off = new Map(); // "heads 14:4" -> {field, value, title}
  let latest = context;
  const switches = element("div", { class: "what-if-settings", role: "group", "aria-label": "Parts to switch off" });
  const everywhere = element("input", { type: "checkbox", onchange: () => life.update() });
  const said = element("p", { role: "status" });
  const body = element("div", { class: "stage-picture" });
  const picture = element("div", { class: "stage-picture" }, said, body);
  host.append(
    switches,
    element("label", {}, everywhere, " also while the positions before were read"),
    picture,
  );

  function partOf(kind) {
    const { field, value, title } = KINDS[kind];
    const part = { field, value: value(latest.selection), title: title(latest.selection) };
    return [`${field} ${part.value}`, part];
  }

  function toggle(key, part) {
    if (!off.delete(key)) off.set(key, part);
    draw();
    life.update();
  }

  function draw() {
    const offered = kinds.map(partOf).filter(([key]) => !off.has(key));
    const switchOf = ([key, part], isOff) => button(
      isOff ? `${part.title} is off: switch it on` : `Switch off ${part.title}`, () => toggle(key, part),
      { "data-focus": key, "aria-pressed": String(isOff) },
    );
    swap(switches, [...off].map((one) => switchOf(one, true)), offered.map((one) => switchOf(one, false)));
    if (off.size > 0) return;
    setText(said, "Nothing is off: choose a part above, or another layer or head.");
    body.replaceChildren();
  }

  function query({ selection: { layer, position } }) {
    if (off.size === 0 || layer === null || position === null) return null;
    const fields = {};
    for (const { field, value } of off.values()) fields[field] = field in fields ? `${fields[field]},${value}` : value;
    return { found: ["ablation", { position, ...fields, ...(everywhere.checked && { everywhere: true }) }] };
  }

  off.set(...partOf(kinds[0]));
  draw();
  const life = followViews(query, ({ found }, now) => {
    if (off.size === 0) return;
    setText(said, verdict(found.info, now));
    swap(body, pictures(found));
  })(picture, context);

  return {
    update(next) {
      latest = next;
      draw();
      life.update(next);
    },
    destroy: life.destroy,
  };
}

function verdict({ position, token, token_texts: texts, ...info }, context) {
  const after = `After position ${position} “${label(tokenAt(context, position))}”`;
  const [before, now] = [info.before_token_probability, info.token_probability].map((share) => percent(share));
  const rank = info.token_rank === info.before_token_rank ? "" : `, at rank ${info.token_rank} and no longer ${info.before_token_rank}`;
  return `${after}, “${label(named(token, texts))}” has ${now} in place of ${before}${rank}.`;
}

function pictures({ info, tensors }) {
  const [now, before] = [tensors.probabilities.data, tensors.before_probabilities.data];
  const most = Math.max(...now, ...before) || 1;
  return [
    facts([
      ["distance of the two distributions", [quantity("ablation-divergence", info.divergence), " nats (Kullback-Leibler)"]],
      ["entropy", [quantity("ablation-entropy", info.entropy), ` nats, was ${number(info.before_entropy)}`]],
    ]),
    table({
      name: "ablation", caption: `The likeliest tokens of both, before any sampling filter; bars run from 0 to ${percent(most)}`,
      columns: ["token", "as it was", "with the parts off"],
      rows: info.token_ids.map((id, index) => ({
        selected: id === info.token,
        cells: [
          chip(named(id, info.token_texts), { selected: id === info.token }),
          bar(before[index] / most, quantity(`ablation-before-${id}`, before[index], percent)),
          bar(now[index] / most, quantity(`ablation-${id}`, now[index], percent), "final"),
        ],
      })),
    }),
    note(
      "What is off adds nothing to the state (zero ablation). The layers after it were never trained on such a state: a large change shows that the part matters here, not what it is for, and a small one may only show that others stand in for it. ",
      info.everywhere
        ? "The positions before were read without it too."
        : "Only this position goes without it: the keys and values before it are the run's own.",
    ),
  ];
}
