/** Stage 12: every score divided by the root of the head width. */

import { scale } from "../arithmetic.js";
import { count, number, plural } from "../format.js";
import { chosenKey, keyChip, shownKeys } from "../keys.js";
import { agrees, facts, fold, formula, fromViews, note, quantity, signedBar, table, tokenAt } from "../parts.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence({ model }) {
  return `A sum of ${count(model.head_width)} products tends to be large, so every score was divided by √${count(Math.round(model.score_divisor ** 2))} = ${number(model.score_divisor)}. The order of the scores stays as it was.`;
}

const queries = ({ selection: { layer, head, position } }) =>
  position !== null && layer !== null && { rows: ["scale", { layer, head, position }] };

function range(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    low = Math.min(low, value);
    high = Math.max(high, value);
  }
  return [low, high];
}

export function draw(host, context) {
  return fromViews(host, context, queries, ({ rows: { info, tensors } }, now) => {
    const { raw, scaled } = tensors;
    const [low, high] = range(raw.data);
    const [scaledLow, scaledHigh] = range(scaled.data);
    const most = Math.max(Math.abs(low), Math.abs(high)) || 1;
    const shown = shownKeys(raw.data, chosenKey(now));
    return [
      facts([
        ["divided by", quantity("divisor", info.divisor)],
        ["range before", [quantity("low", low), " to ", quantity("high", high)]],
        ["range after", [quantity("scaled_low", scaledLow), " to ", quantity("scaled_high", scaledHigh)]],
      ]),
      table({
        name: "scaled", caption: `Before and after, on one scale from ${number(-most, 3)} to ${number(most, 3)}${shown.length < raw.data.length ? `; the ${shown.length} largest of ${plural(raw.data.length, "key")}` : ""}`,
        columns: [{ title: "key" }, { title: "score" }, { title: "divided" }],
        rows: shown.map((index) => ({
          selected: index === chosenKey(now),
          cells: [
            keyChip(now, index), signedBar(raw.data[index] / most, number(raw.data[index])),
            signedBar(scaled.data[index] / most, quantity(`scaled-${index}`, scaled.data[index])),
          ],
        })),
      }),
    ];
  });
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ rows: { info, tensors } }, now) => {
    const { raw, scaled } = tensors;
    const check = (index) => [
      formula(`${label(tokenAt(now, index))}: ${number(raw.data[index])} / ${number(info.divisor)}`),
      agrees(`scaled-${index}`, scale(raw.data[index], info.divisor), scaled.data[index]),
    ];
    const key = chosenKey(now);
    return [
      check(key),
      fold("all-scaled", "The other keys", () => shownKeys(raw.data, key).filter((index) => index !== key).map(check)),
      note("Without this, the exponentials of the next step would let one key take nearly everything."),
    ];
  });
}
