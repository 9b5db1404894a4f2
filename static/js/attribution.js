/** A logit taken apart into what every head and feed-forward block wrote towards it. */

import { largestSize } from "./arithmetic.js";
import { headGrid, legend, strip } from "./charts.js";
import { button, element } from "./dom.js";
import { number, short } from "./format.js";
import { agrees, choice, ends, facts, formula, heading, note, quantity, signedBar, sum, sumOfSizes, table } from "./parts.js";
import { fromView } from "./pictures.js";
import { label, named } from "./tokens.js";

const SHOWN = 12;

/** The chosen token's logit at the selected step, or how far it stands from the best other one. */
export function attribution(host, context) {
  let against = false;
  const options = [["the token's logit", false], ["its lead over the best other token", true]];
  const of = choice("Take apart", "attribution-of", options, against, (chosen) => {
    against = chosen;
    life.update();
  });
  const picture = element("div", { class: "stage-picture" });
  host.append(heading("Who wrote this logit"), of, picture);
  const life = fromView("attribution", ["step"], pictures, ({ step }) => ({ token: step.token, against: against ? rival(step) : null }))(picture, context);
  return life;
}

/** The best candidate by logit beside the chosen token. */
function rival({ token, candidates }) {
  return candidates.filter(([id]) => id !== token).reduce((best, one) => (one[2] > best[2] ? one : best))[0];
}

function pictures({ info, tensors }, now) {
  const { n_layers: layers, n_heads: heads } = now.model;
  const all = parts(tensors, layers, heads);
  const strongest = all.toSorted((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, SHOWN);
  const most = Math.abs(strongest[0].value) || 1;
  const largest = largestSize(tensors.heads.data);
  const other = info.against_ids.length > 0 && ` minus that of “${label(named(info.against_ids[0], info.token_texts))}”`;
  const go = (stage, selection, title) => button(title, () => now.select({ stage, position: info.position, ...selection }), { class: "token" });
  return [
    facts([
      [["logit of “", label(named(info.token, info.token_texts)), "”", other], quantity("attribution-logit", info.logit)],
      ["the token's own row", quantity("attribution-embedding", tensors.embedding.data[0])],
      ["all heads", quantity("attribution-heads", sum(tensors.heads.data))],
      ["all feed-forward blocks", quantity("attribution-feed-forwards", sum(tensors.feed_forwards.data))],
      ["left by the kernels' roundings", quantity("attribution-rounding", info.rounding)],
    ]),
    table({
      name: "attribution", caption: `The ${SHOWN} strongest of ${all.length} parts; ${ends(most)}`,
      columns: ["part", "wrote"],
      rows: strongest.map(({ name, stage, selection, value }) => [
        stage === null ? name : go(stage, selection, name), signedBar(value / most, quantity(`attribution-${name}`, value)),
      ]),
    }),
    headGrid({
      values: tensors.heads.data, layers, heads, range: [-largest, largest], scale: "diverging", selected: now.selection, name: "What every head wrote",
      onPick: (layer, head) => now.select({ layer, head }),
    }),
    legend("diverging", [number(-largest, 3), number(largest, 3)], "Layers across, heads down: what each head wrote."),
    strip(tensors.feed_forwards.data, { name: "what every feed-forward block wrote, layer by layer", perRow: layers }),
    formula(`part = ${short(info.scale)} × Σ row of the vocabulary × weight of the last norm × what the part added to the state`),
    agrees("attribution-sum", sum(all.map(({ value }) => value)), info.sum, { title: "all parts together", terms: sumOfSizes(all.map(({ value }) => value)) }),
    note("Direct writing alone: what a part made later layers do counts as theirs. The last norm divides by one number, held here as it was; a positive share says that the part pushed towards the token, not that it knew it. After Elhage et al. (2021)."),
  ];
}

/** Every part with its name, its share, and where it is shown. */
function parts({ heads: byHead, feed_forwards: blocks, embedding, biases }, layers, heads) {
  return [
    { name: "the token's own row", stage: null, value: embedding.data[0] },
    ...Array.from(byHead.data, (value, index) => {
      const [layer, head] = [Math.floor(index / heads), index % heads];
      return { name: `head ${head} of layer ${layer}`, stage: "heads", selection: { layer, head }, value };
    }),
    ...Array.from(blocks.data, (value, layer) => ({ name: `feed-forward of layer ${layer}`, stage: "feed_forward", selection: { layer }, value })),
    ...Array.from(biases?.data ?? [], (value, layer) => ({ name: `bias of layer ${layer}`, stage: null, value })),
  ];
}
