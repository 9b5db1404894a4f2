/** Stage 9: the rotary angles of a position, and what they do to a pair of numbers of a query or key. */

import { turned } from "../arithmetic.js";
import { element, shape } from "../dom.js";
import { number, short } from "../format.js";
import { agrees, facts, fold, formula, note, quantity, table } from "../parts.js";
import { fromView, slider } from "../pictures.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence({ selection, model, token }) {
  if (!model.rotates[selection.layer]) return `Layer ${selection.layer} turns nothing: what “${label(token)}” knows of the order of positions there comes from the mask, and from other layers.`;
  return `Order enters by turning: “${label(token)}” stands at position ${selection.position}, so each of its ${model.head_width / 2} pairs of numbers is turned by ${selection.position} times the pair's own angle. The first pairs turn fast, the last hardly at all.`;
}

/** Numbers 2j and 2j + 1 of a vector. */
function pairOf(vector, pair) {
  return [vector[2 * pair], vector[2 * pair + 1]];
}

/** One pair as an arrow before (dashed) and after (solid), on a circle of its own length. */
function dial(name, before, after, angle) {
  const size = Math.hypot(...before) || 1;
  const drawn = (tag, attributes) => shape(tag, { ...attributes, "vector-effect": "non-scaling-stroke" });
  const arrow = ([x, y], kind) => drawn("line", { x1: 0, y1: 0, x2: (x / size).toFixed(4), y2: (-y / size).toFixed(4), class: kind });
  const drawing = shape(
    "svg", { viewBox: "-1.15 -1.15 2.3 2.3", class: "turn", role: "img", "aria-label": `${name}: a pair of length ${short(size)} turned by ${short(angle)} radians` },
    drawn("circle", { r: 1, class: "turn-circle" }), drawn("path", { d: "M-1.1 0H1.1M0 -1.1V1.1", class: "turn-axis" }),
    arrow(before, "turn-before"), arrow(after, "turn-after"),
  );
  return element("figure", {}, element("figcaption", {}, `${name}: dashed before, solid after; circle of radius ${short(size)}`), drawing);
}

export const draw = slider(
  {
    name: "pair", title: "pair of numbers", start: 1, size: ({ model }) => model.head_width / 2,
    said: (pair) => `${pair}: numbers ${2 * pair} and ${2 * pair + 1}`,
  },
  (chosen) => fromView("positions", uses, ({ info, tensors }) => {
    const pair = chosen();
    const angles = tensors.angles.data;
    const angle = angles[pair];
    const pairs = [["query", "q"], ["key", "k"]].map(([name, letter]) => ({
      name, letter, before: pairOf(tensors[`${letter}_before`].data, pair), after: pairOf(tensors[`${letter}_after`].data, pair),
    }));
    return [
      facts([
        ["angle", [quantity("angle", angle), " radians"]],
        ["full turns", quantity("turns", angle / (2 * Math.PI), short)],
        ["angle per position", info.position > 0 ? [quantity("angle_per_position", angle / info.position), " radians"] : null],
      ]),
      element("div", { class: "turns" }, pairs.map(({ name, before, after }) => dial(name, before, after, angle))),
      table({
        name: "turned", caption: `Pair ${pair} before and after`, columns: ["vector", "#before", "#after"],
        rows: pairs.map(({ name, letter, before, after }) => [
          name, before.map((one) => number(one)).join(", "),
          [quantity(`${letter}_after_0`, after[0]), ", ", quantity(`${letter}_after_1`, after[1])],
        ]),
      }),
      fold("angles", "All angles at this position", () => table({
        name: "angles", caption: "Pair and angle in radians", columns: ["pair", "#angle"],
        rows: Array.from(angles, (one, index) => [String(index), number(one)]),
      })),
      info.scaling && note(`This model was stretched to longer texts: its angles are those of base ${short(info.base)}, scaled (${info.scaling}).`),
      note(`A turn ${info.magnitude === 1 ? "keeps the pair's length" : `makes the pair ${short(info.magnitude)} times as long`}. The dot product of a turned query and a turned key depends only on how far apart they stand. Nothing is added to the embedding.`),
    ];
  }),
);

export const arithmetic = fromView("positions", uses, ({ info, tensors }) => {
  const angles = tensors.angles.data;
  return [0, 1, Math.floor(angles.length / 2)].map((pair) => {
    const before = pairOf(tensors.q_before.data, pair);
    const after = pairOf(tensors.q_after.data, pair);
    const mine = turned(before, angles[pair], info.magnitude);
    const times = info.magnitude === 1 ? "" : `, each times ${number(info.magnitude)}`;
    return [
      formula(`pair ${pair}: a = ${number(before[0])}, b = ${number(before[1])}, angle = ${number(angles[pair])}; a cos − b sin and a sin + b cos${times}`),
      mine.map((one, index) => agrees(`q-${2 * pair + index}`, one, after[index], { title: `number ${2 * pair + index}`, terms: 100 * Math.hypot(...before) })),
    ];
  });
});
