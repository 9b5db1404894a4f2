/** Stage 16: the outputs of all heads, joined and projected back to the width of the model. */

import { strip } from "../charts.js";
import { count, shape } from "../format.js";
import { agrees, bar, facts, fromViews, norm, note, quantity, sumOfSizes, table, tokenAt } from "../parts.js";
import { element } from "../dom.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence(context) {
  const { selection, model } = context;
  const token = tokenAt(context, selection.position);
  return `The ${count(model.n_heads)} heads of layer ${selection.layer} worked side by side; their outputs for “${label(token)}”, ${count(model.n_heads)} × ${count(model.head_width)} numbers, went through one more matrix and became one update of ${count(model.width)}.`;
}

const queries = ({ selection: { layer, position } }) =>
  position !== null && layer !== null && { joined: ["heads", { layer, position }] };

function parts({ joined: { tensors } }, { model }) {
  return Array.from({ length: model.n_heads }, (_, head) =>
    tensors.joined.data.subarray(head * model.head_width, (head + 1) * model.head_width));
}

export function draw(host, context) {
  return fromViews(host, context, (now) => queries(now) && { ...queries(now) }, (views, now) => {
    const { tensors, info } = views.joined;
    const norms = parts(views, now).map(norm);
    const most = Math.max(...norms) || 1;
    return [
      facts([
        ["joined", shape(tensors.joined.shape)],
        ["matrix", info.weights ? element("code", {}, shape(info.weights)) : null],
        ["update", shape(tensors.projected.shape)],
        ["length of the update", quantity("norm", norm(tensors.projected.data))],
      ]),
      table({
        name: "heads", caption: "How long each head's output is; choose one to see the stages before for it",
        columns: [{ title: "head" }, { title: "length" }],
        rows: norms.map((size, head) => ({
          selected: head === now.selection.head,
          cells: [
            element("button", { type: "button", class: "token", "data-focus": `head-${head}`, "aria-pressed": String(head === now.selection.head), onclick: () => now.select({ head }) }, `head ${head}`),
            bar(size / most, quantity(`norm-${head}`, size)),
          ],
        })),
      }),
      strip(tensors.joined.data, { name: "all heads joined, one head a line", perRow: now.model.head_width }),
      strip(tensors.projected.data, { name: "the attention update: joined outputs times the output matrix" }),
      note("A long output is not an important one by itself: the matrix after it decides what of it remains."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, (views, now) => {
    const norms = parts(views, now).map(norm);
    const whole = norm(views.joined.tensors.joined.data);
    return [
      note("Heads lie side by side, so the squares of their lengths add up to the square of the joined length:"),
      agrees("joined_norm", Math.sqrt(norms.reduce((total, size) => total + size * size, 0)), views.joined.info.joined_norm ?? whole, { terms: sumOfSizes(norms) }),
    ];
  });
}
