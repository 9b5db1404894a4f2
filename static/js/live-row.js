/** One head's newest attention row, as the service pushes it while the answer grows; gone when the answer is there. */

import { legend } from "./charts.js";
import { painted } from "./colours.js";
import { element, swap } from "./dom.js";
import { number, percent } from "./format.js";
import { note } from "./parts.js";
import { isActive } from "./record.js";
import { watchHead } from "./responses.js";
import { subscribe } from "./store.js";
import { label, tokenAt } from "./tokens.js";

const LEVELS = 255;

export function liveRow(host, context) {
  let latest = context;
  let watched = "";
  let heard = null;

  function watch() {
    const { response, selection: { layer, head } } = latest;
    const watching = response?.id && isActive(response) && layer !== null;
    const wanted = watching ? `${response.id} ${layer} ${head}` : "";
    if (wanted === watched) return;
    watched = wanted;
    heard = null;
    host.replaceChildren();
    if (response?.id) watchHead(response, watching ? { layer, head } : {});
  }

  function show({ attention }) {
    if (attention === null || attention === heard || watched !== `${attention.response_id} ${attention.layer} ${attention.head}`) return;
    heard = attention;
    const { step, layer, head, largest } = attention;
    const weights = Array.from(atob(attention.weights), (byte) => (byte.charCodeAt(0) / LEVELS) * largest);
    const most = weights.indexOf(Math.max(...weights.slice(1)), 1);
    const top = most > 0 ? weights[most] : 0;
    const canvas = element("canvas", { class: "strip", role: "img", vars: { rows: 1 }, "aria-label": `Weights of ${weights.length} positions at step ${step}` });
    painted(canvas, weights.length, 1, "sequential", (column) => weights[column] / (top || 1));
    swap(
      host,
      element("p", { "data-name": "live-step", "data-value": step }, `Live, step ${step}: head ${head} of layer ${layer} read “${label(tokenAt(latest, Math.max(most, 0)))}” with ${percent(top)}, and position 0 with ${percent(weights[0])}.`),
      canvas, legend("sequential", ["0", number(top, 3)], "Position 0 is left out of the range."),
      note("Rounded to 255 levels for the way here; the exact row is below."),
    );
  }

  const stops = [subscribe(["attention"], show), subscribe(["connection"], ({ connection }) => { if (connection === "open") { watched = ""; watch(); } })];
  watch();
  return {
    update(next) {
      latest = next;
      watch();
    },
    destroy() {
      stops.forEach((stop) => stop());
      if (watched !== "") watchHead(latest.response, {});
      host.replaceChildren();
    },
  };
}
