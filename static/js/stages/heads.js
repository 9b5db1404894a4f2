/** Stage 16: the outputs of all heads, joined and projected back to the width of the model. */

import { ablation } from "../ablation.js";
import { strip } from "../charts.js";
import { count, shape } from "../format.js";
import { agrees, bar, facts, fromViews, norm, note, quantity, sections, table, tokenAt } from "../parts.js";
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
  return sections(host, context, { joined: drawJoined, ablation: (box, now) => ablation(box, now, ["head", "layer"]) });
}

function drawJoined(host, context) {
  return fromViews(host, context, queries, (views, now) => {
    const { tensors, info } = views.joined;
    const norms = Array.from(tensors.head_norms.data);
    const most = Math.max(...norms) || 1;
    return [
      facts([
        ["joined", shape(tensors.joined.shape)],
        ["matrix", element("code", {}, shape(info.weight_shape))],
        ["update", shape(tensors.projected.shape)],
        [tensors.update ? "length before it is normalised" : "length of the update", quantity("norm", info.projected_norm)],
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
      strip(tensors.projected.data, { name: `${tensors.update ? "" : "the attention update: "}joined outputs times the output matrix` }),
      tensors.update && strip(tensors.update.data, { name: "the attention update: that, brought to a common size" }),
      note("A long output is not an important one by itself: the matrix after it decides what of it remains."),
    ];
  });
}

export function arithmetic(host, context) {
  return fromViews(host, context, queries, (views, now) => {
    const { info, tensors } = views.joined;
    return [
      note("The length of each head's output, from its own numbers:"),
      parts(views, now).map((part, head) => agrees(`norm-${head}`, norm(part), tensors.head_norms.data[head], { title: `head ${head}` })),
      note("And that of the update:"),
      agrees("norm", norm(tensors.projected.data), info.projected_norm),
    ];
  });
}
