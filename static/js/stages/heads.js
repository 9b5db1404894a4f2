/** Stage 16: the outputs of all heads, joined and projected back to the width of the model. */

import { ablation } from "../ablation.js";
import { largestSize } from "../arithmetic.js";
import { strip } from "../charts.js";
import { button, element } from "../dom.js";
import { count, shape } from "../format.js";
import { agrees, bar, facts, norm, note, quantity, table } from "../parts.js";
import { fromView, sections } from "../pictures.js";
import { label } from "../tokens.js";

export const uses = ["layer", "head", "position"];

export function sentence({ selection, model, token }) {
  return `The ${count(model.n_heads)} heads of layer ${selection.layer} worked side by side; their outputs for “${label(token)}”, ${count(model.n_heads)} × ${count(model.head_width)} numbers, went through one more matrix and became one update of ${count(model.width)}.`;
}

const joined = fromView("heads", ["layer", "position"], ({ info, tensors }, { model, selection, select }) => {
  const norms = Array.from(tensors.head_norms.data);
  const most = largestSize(norms);
  return [
    facts([
      ["joined", shape(tensors.joined.shape)],
      ["matrix", element("code", {}, shape(info.weight_shape))],
      ["update", shape(tensors.projected.shape)],
      [tensors.update ? "length before it is normalised" : "length of the update", quantity("norm", info.projected_norm)],
    ]),
    table({
      name: "heads", caption: "How long each head's output is; choose one to see the stages before for it", columns: ["head", "length"],
      rows: norms.map((size, head) => {
        const isChosen = head === selection.head;
        return {
          selected: isChosen,
          cells: [
            button(`head ${head}`, () => select({ head }), { class: "token", "data-focus": `head-${head}`, "aria-pressed": String(isChosen) }),
            bar(size / most, quantity(`norm-${head}`, size)),
          ],
        };
      }),
    }),
    strip(tensors.joined.data, { name: "all heads joined, one head a line", perRow: model.head_width }),
    strip(tensors.projected.data, { name: `${tensors.update ? "" : "the attention update: "}joined outputs times the output matrix` }),
    tensors.update && strip(tensors.update.data, { name: "the attention update: that, brought to a common size" }),
  ];
});

export const draw = sections({ joined, ablation: ablation(["head", "layer"]) });

export const arithmetic = fromView("heads", ["layer", "position"], ({ info, tensors }, { model: { head_width: width } }) => [
  note("The length of each head's output, from its own numbers:"),
  Array.from(tensors.head_norms.data, (served, head) =>
    agrees(`norm-${head}`, norm(tensors.joined.data.subarray(head * width, (head + 1) * width)), served, { title: `head ${head}` })),
  note("And that of the update:"),
  agrees("norm", norm(tensors.projected.data), info.projected_norm),
]);
