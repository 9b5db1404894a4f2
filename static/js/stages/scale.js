/** Stage 12: every score divided by the root of the head width. */

import { largestSize, scale } from "../arithmetic.js";
import { count, number } from "../format.js";
import { chosenKey, keyChip, ofAll, shownKeys } from "../keys.js";
import { agrees, facts, fold, formula, note, quantity, signedBar, table } from "../parts.js";
import { fromView } from "../pictures.js";
import { label, tokenAt } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence({ model }) {
  return `A sum of ${count(model.head_width)} products tends to be large, so every score was divided by √${count(Math.round(model.score_divisor ** 2))} = ${number(model.score_divisor)}. The order of the scores stays as it was.`;
}

/** The smallest and the largest, as values of these names. */
function range(low, high, values) {
  const of = (pick) => values.reduce((one, other) => pick(one, other));
  return [quantity(low, of(Math.min)), " to ", quantity(high, of(Math.max))];
}

export const draw = fromView("scale", uses, ({ info, tensors }, context) => {
  const [raw, scaled] = [tensors.raw.data, tensors.scaled.data];
  const most = largestSize(raw);
  const key = chosenKey(context);
  const shown = shownKeys(raw, key);
  return [
    facts([
      ["divided by", quantity("divisor", info.divisor)],
      ["range before", range("low", "high", raw)],
      ["range after", range("scaled_low", "scaled_high", scaled)],
    ]),
    table({
      name: "scaled", caption: `Before and after, on one scale from ${number(-most, 3)} to ${number(most, 3)}${ofAll(shown, raw)}`,
      columns: ["key", "score", "divided"],
      rows: shown.map((index) => ({
        selected: index === key,
        cells: [
          keyChip(context, index), signedBar(raw[index] / most, number(raw[index])),
          signedBar(scaled[index] / most, quantity(`scaled-${index}`, scaled[index])),
        ],
      })),
    }),
  ];
});

export const arithmetic = fromView("scale", uses, ({ info, tensors }, context) => {
  const raw = tensors.raw.data;
  const check = (index) => [
    formula(`${label(tokenAt(context, index))}: ${number(raw[index])} / ${number(info.divisor)}`),
    agrees(`scaled-${index}`, scale(raw[index], info.divisor), tensors.scaled.data[index]),
  ];
  const key = chosenKey(context);
  return [
    check(key),
    fold("all-scaled", "The other keys", () => shownKeys(raw, key).filter((index) => index !== key).map(check)),
    note("Without this, the exponentials of the next step would let one key take nearly everything."),
  ];
});
