/** Stage 15: the values, mixed by the weights of one query. */

import { weightedTerms } from "../arithmetic.js";
import { element, swap } from "../dom.js";
import { strip } from "../charts.js";
import { count, number, percent, plural } from "../format.js";
import { chosenKey, keyChip, numKeys, shownKeys } from "../keys.js";
import { agrees, bar, facts, fold, followViews, formula, fromViews, norm, note, quantity, signedBar, sum, sumOfSizes, table, tokenAt } from "../parts.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { selection, model } = context;
  const token = tokenAt(context, selection.position);
  return `Each of ${plural(numKeys(context), "position")} offered ${count(model.head_width)} numbers, its value; their average, weighted by attention, is what head ${selection.head} hands on for “${label(token)}”.`;
}

const queries = ({ selection: { layer, head, position } }) =>
  position !== null && layer !== null && { mix: ["weighted_sum", { layer, head, position }] };

const termsOf = ({ weights, values }, coordinate) => weightedTerms(weights.data, values.data, values.shape[1], coordinate);

export function draw(host, context) {
  let coordinate = 0;
  let views = null;
  let latest = context;
  const said = element("output", {});
  const slider = element("input", {
    type: "range", min: 0, max: context.model.head_width - 1, value: coordinate, "aria-label": "coordinate",
    oninput: () => {
      coordinate = Number(slider.value);
      show();
    },
  });
  const content = element("div", { class: "stage-picture" });
  host.append(element("label", { class: "slider-row" }, element("span", { class: "picker-name" }, "coordinate"), slider, said), content);

  function show() {
    if (!views) return;
    said.textContent = String(coordinate);
    const { tensors } = views.mix;
    const { weights, values, output } = tensors;
    const terms = termsOf(tensors, coordinate);
    const most = terms.reduce((largest, term) => Math.max(largest, Math.abs(term)), 0) || 1;
    const keys = Array.from(tensors.keys.data);
    const open = keys.indexOf(chosenKey(latest));
    const shown = shownKeys(weights.data, open);
    const width = values.shape[1];
    swap(
      content,
      facts([
        ["length of the output", quantity("norm", norm(output.data))],
        [`coordinate ${coordinate} of the output`, quantity(`output-${coordinate}`, output.data[coordinate])],
      ]),
      strip(output.data, { name: "the head's output for this position" }),
      open >= 0 && strip(values.data.subarray(open * width, (open + 1) * width), {
        name: `the value of “${label(tokenAt(latest, keys[open]))}”, of which ${percent(weights.data[open])} was taken`,
      }),
      table({
        name: "terms", caption: `Coordinate ${coordinate}, term by term; bars run from ${number(-most, 3)} to ${number(most, 3)}${shown.length < terms.length ? `; the ${shown.length} largest weights of ${terms.length}` : ""}`,
        columns: [{ title: "key" }, { title: "weight" }, { title: "value", numeric: true }, { title: "weight × value" }],
        rows: shown.map((index) => ({
          selected: index === open,
          cells: [
            keyChip(latest, keys[index]), bar(weights.data[index], number(weights.data[index])),
            number(values.data[index * width + coordinate]), signedBar(terms[index] / most, quantity(`term-${keys[index]}`, terms[index])),
          ],
        })),
      }),
    );
  }

  const life = followViews(content, context, queries, (found) => {
    views = found;
    show();
  });
  return {
    update(next) {
      const moved = next.selection.key !== latest.selection.key;
      latest = next;
      life.update(next);
      if (moved) show();
    },
    destroy: () => (life.destroy(), host.replaceChildren()),
  };
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, ({ mix: { info, tensors } }) => {
    if (tensors.keys.data.length < info.position + 1) return note("Only the heaviest keys of this long text came, so the sum cannot be made whole here.");
    const check = (coordinate) => {
      const terms = termsOf(tensors, coordinate);
      return [
        formula(`coordinate ${coordinate}: ${terms.slice(0, 3).map((term) => number(term, 4)).join(" + ")}${terms.length > 3 ? ` + … (${terms.length} terms)` : ""}`),
        agrees(`output-${coordinate}`, sum(terms), tensors.output.data[coordinate], { terms: sumOfSizes(terms) * 100 }),
      ];
    };
    return [
      check(0), check(1),
      fold("coordinates", "The other coordinates", () => Array.from({ length: tensors.output.data.length - 2 }, (_, index) => check(index + 2))),
      note("The weights add up to 1, so this is an average: no coordinate can leave the range of the values."),
    ];
  });
}
