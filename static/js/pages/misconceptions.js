/** Common beliefs about language models, each beside what this request shows of it. */

import * as api from "../api.js";
import { cosine } from "../arithmetic.js";
import { button, element } from "../dom.js";
import { count, number, percent, plural, shape, short } from "../format.js";
import { chosenKey } from "../keys.js";
import { selectionLink } from "../links.js";
import { page } from "../page-data.js";
import { bar, facts, field, note, quantity, sum, table } from "../parts.js";
import { withPickers } from "../pickers.js";
import { fromContext, fromView, fromViews, sections } from "../pictures.js";
import { isActive } from "../record.js";
import { sourceOf } from "../source.js";
import { candidates, stepChip } from "../steps.js";
import { chip, label, named, tokenAt, tokensBetween } from "../tokens.js";

const SHOWN = 8; // rows of a table that could have hundreds
const BEFORE = 6; // tokens of the answer before the most confident one

const drawRanking = withPickers(["layer", "head", "position"], fromView("scores", ["layer", "head", "position"], ranking, (context) => ({ key: chosenKey(context) })), () => "");

/** How sure the model is of statements known to be false. */
const endings = fromViews(({ response }) => response?.id && { ends: ["statements", {}] }, statements);

/** By claim: `nodes(context)` of the evidence, or a picture of its own. */
const EVIDENCE = {
  database: told(searched),
  "one-vector": told(vectors),
  cosine: drawRanking,
  "best-sentence": told(notLikeliest),
  factual: sections({ "most-confident": told(mostConfident), statements: endings }),
  understands: told(operations),
  trains: drawFingerprints,
  "at-once": told(otherBeginnings),
};

/** Evidence that follows the request and the chosen step. */
function told(nodes) {
  return fromContext(({ response, selection }) => [response?.version, selection.step], nodes);
}

export function draw(host, context) {
  const lives = page.misconceptions.map(({ name, belief, truth }) => {
    const evidence = element("div", { class: "stage-picture" });
    host.append(element(
      "section", { class: "claim lines", "data-claim": name },
      element("h3", {}, element("span", { class: "claim-mark" }, "✗ ", element("span", { class: "visually-hidden" }, "Not so: ")), `“${belief}”`), element("p", { class: "claim-truth" }, truth), evidence,
    ));
    return EVIDENCE[name](evidence, context);
  });
  return {
    update: (next) => lives.forEach((life) => life.update(next)),
    destroy: () => lives.forEach((life) => life.destroy()),
  };
}

const missing = (what) => note(`This request has no evidence yet: ${what}.`);
const reportOf = ({ stages }, slug) => stages.get(slug)?.data ?? null;

function searched(context) {
  const report = reportOf(context, "retrieval");
  if (!report) return missing("retrieval has not reported");
  return facts([
    ["documents searched", report.enabled ? "yes" : "no"],
    ["why", report.reason],
    ["documents compared", quantity("candidates", report.candidates?.length ?? 0, count)],
    ["closest", typeof report.best_score === "number" ? field(report, "best_score") : null],
    ["tokens computed", quantity("steps", context.steps.length, count)],
  ]);
}

function vectors(context) {
  const { model, numPromptTokens } = context;
  const embedded = reportOf(context, "embeddings");
  const inLayers = reportOf(context, "residual_norm");
  if (!model || !embedded || !inLayers) return missing("the prompt has not been read");
  return [
    facts([
      ["positions of the prompt", quantity("positions", numPromptTokens, count)],
      ["numbers in each vector", quantity("width", model.width, count)],
      ["layers", quantity("layers", inLayers.layers, count)],
    ]),
    note(`Vectors computed for this request: ${embedded.shape} from the table, and ${inLayers.shape} again behind each of ${inLayers.layers} layers.${numPromptTokens > embedded.positions ? ` The other ${plural(numPromptTokens - embedded.positions, "position")} had been computed before and came from the cache.` : ""} The whole prompt is ${shape([numPromptTokens, model.width])} at every layer, never [${model.width}].`),
  ];
}

/** The same query and keys ranked twice, for the chosen layer, head and position. */
function ranking({ info: { opened }, tensors }, context) {
  const width = context.model.head_width;
  const lengths = tensors.key_norms.data;
  const keys = Array.from(tensors.raw.data, (score, key) => ({ key, scaled: score / Math.sqrt(width), cosine: cosine(score, opened.q_norm, lengths[key]), length: lengths[key] }));
  const order = (by) => [...keys].sort((a, b) => b[by] - a[by]);
  const byCosine = new Map(order("cosine").map(({ key }, rank) => [key, rank]));
  const byScore = order("scaled");
  const moved = byScore.filter(({ key }, rank) => byCosine.get(key) !== rank).length;
  return [
    note(
      `Query: “${label(context.token)}”. `, quantity("moved", moved, count), ` of ${plural(keys.length, "key")} `,
      moved === 0 ? "stand elsewhere by cosine: here both rankings agree. Other heads differ." : "stand elsewhere when ranked by cosine. Ranks count from 0.",
    ),
    table({
      name: "ranking", caption: keys.length > SHOWN ? `The ${SHOWN} largest scaled dot products of ${keys.length}; marked where the ranks differ` : "All keys, by scaled dot product; marked where the ranks differ",
      columns: ["key", "#scaled dot product", "#rank", "#cosine", "#rank", "#length of the key"],
      rows: byScore.slice(0, SHOWN).map(({ key, scaled, cosine: angle, length }, rank) => ({
        selected: byCosine.get(key) !== rank,
        cells: [
          chip(tokenAt(context, key), { note: String(key) }), quantity(`scaled-${key}`, scaled), String(rank),
          quantity(`cosine-${key}`, angle), quantity(`cosine-rank-${key}`, byCosine.get(key), String), number(length),
        ],
      })),
    }),
  ];
}

function notLikeliest(context) {
  const { steps } = context;
  if (steps.length === 0) return missing("no token has been chosen");
  const lower = steps.filter(({ rank }) => rank > 0);
  const logarithm = sum(steps.map(({ raw_logprob: logprob }) => logprob)) / Math.LN10;
  return [
    note(
      quantity("not-likeliest", lower.length, count), ` of ${plural(steps.length, "chosen token")} ${lower.length === 1 ? "was" : "were"} not the most probable one of ${lower.length === 1 ? "its" : "their"} step. All their probabilities multiplied make 10 to the power of `,
      quantity("joint-log10", logarithm, short), ": a number nobody looked at, least of all compared with other sentences.",
    ),
    lower.length > 0 && table({
      name: "not-likeliest", caption: `Chosen, though not the likeliest${lower.length > SHOWN ? `; the first ${SHOWN}` : ""}; rank 0 would be the likeliest`,
      columns: ["chosen", "#step", "#rank", "#its probability", "likeliest instead", "#its probability"],
      rows: lower.slice(0, SHOWN).map((step) => {
        const [best] = candidates(step);
        return [
          stepChip(context, step), String(step.step), quantity(`rank-${step.step}`, step.rank, String), percent(Math.exp(step.raw_logprob)),
          chip(best), percent(best.raw),
        ];
      }),
    }),
  ];
}

function mostConfident(context) {
  const { steps, numPromptTokens } = context;
  if (steps.length === 0) return missing("no token has been chosen");
  const step = steps.reduce((best, one) => (one.raw_logprob > best.raw_logprob ? one : best));
  const at = numPromptTokens + step.step;
  const before = tokensBetween(context, Math.max(numPromptTokens, at - BEFORE), at).map((token) => chip(token));
  return [
    facts([
      ["most confident step", quantity("confident-step", step.step, String)],
      ["chosen", [before, " ", stepChip(context, step)]],
      ["probability", quantity("confidence", Math.exp(step.raw_logprob), percent)],
    ]),
    note("That is how sure the model was of the continuation. Whether the sentence it belongs to is true cannot be read off this number, high or low."),
  ];
}

function statements({ ends: { info, tensors } }) {
  const token = ({ token: id }) => chip(named(id, info.token_texts));
  const better = info.statements.filter((_, index) => tensors.false.data[index] > tensors.true.data[index]).length;
  return [
    table({
      name: "statements", caption: "The same model reads the beginning of a sentence: how probable are a false ending and a true one?",
      columns: ["beginning", "false", "#probability", "true", "#probability"],
      rows: info.statements.map(({ beginning, false: wrong, true: right }, index) => [
        `“${beginning}”`, token(wrong), quantity(`false-${index}`, tensors.false.data[index], percent),
        right && token(right), right && quantity(`true-${index}`, tensors.true.data[index], percent),
      ]),
    }),
    note(quantity("falsehood-wins", better, count), " of these false endings had a higher probability than the true one. They were read as they stand here, with the weights that answered you; an ending is its first token."),
  ];
}

function operations(context) {
  const rows = context.catalogue.map((stage) => ({ stage, data: reportOf(context, stage.slug) })).filter(({ data }) => data?.multiply_adds !== undefined);
  if (rows.length === 0) return missing("the prompt has not been read");
  const total = sum(rows.map(({ data }) => data.multiply_adds));
  const most = Math.max(1, ...rows.map(({ data }) => data.multiply_adds));
  const worker = reportOf(context, "routing")?.workers.find(({ chosen }) => chosen);
  return [
    facts([
      ["multiply-adds to read the prompt, all layers", quantity("multiply-adds", total, count)],
      ["device", worker?.device],
    ]),
    table({
      name: "multiply-adds", caption: "Multiply-adds of each stage while the prompt was read",
      columns: ["stage", "multiply-adds"],
      rows: rows.map(({ stage, data }) => [
        selectionLink({ stage: stage.slug }, {}, stage.title),
        bar(data.multiply_adds / most, quantity(`multiply-adds-${stage.slug}`, data.multiply_adds, count)),
      ]),
    }),
  ];
}

/** The fingerprint under which the answer was made, and that of the engine which would answer now. */
function drawFingerprints(host, context) {
  const now = { fingerprint: null };
  const isFile = context.response !== null && sourceOf(context.response).address === null;
  const life = fromContext(({ response, stages }) => [response?.fingerprint, stages.size, now.fingerprint], ({ response, stages }) => {
    const stored = stages.get("storage")?.data;
    if (!response?.fingerprint) return missing("no engine has taken the request");
    const same = response.fingerprint === now.fingerprint;
    return [
      facts([
        ["when this was answered", element("code", { "data-name": "fingerprint-then" }, response.fingerprint)],
        ["the engine now", isFile ? "not asked: this trace comes from a file" : now.fingerprint !== null && element("code", { "data-name": "fingerprint-now" }, now.fingerprint)],
        ["the same", now.fingerprint !== null && element("strong", { "data-name": "fingerprint-same", "data-value": String(same) }, same ? "✓ yes" : "no: another checkpoint, kernel or library serves now")],
        ["rows stored", stored && quantity("stored-rows", stored.rows.length, count)],
      ]),
      note("A fingerprint joins the checkpoint's hash, the kernel plan and the library's version. It is taken when the engine loads the file, not read out of its memory again."),
    ];
  })(host, context);
  let latest = context;
  if (!isFile) api.getModels().then((models) => {
    now.fingerprint = (models.find(({ name }) => name === latest.response?.model) ?? models[0])?.fingerprint ?? null;
    life.update(latest);
  }, reportError);
  return { update: (next) => life.update((latest = next)), destroy: life.destroy };
}

function otherBeginnings(context) {
  const { response, steps, again, stages } = context;
  if (steps.length === 0) return missing("no token has been chosen");
  const [first] = steps;
  const rows = candidates(first).filter(({ id }, rank) => rank < SHOWN || id === first.token);
  const seed = stages.get("sampling")?.data.seed;
  const greedy = first.ledger.greedy;
  return [
    facts([
      ["first token", stepChip(context, first)],
      ["seed", seed === undefined ? null : quantity("seed", seed, String)],
      ["drawn number", greedy ? null : quantity("draw", first.ledger.draw)],
    ]),
    table({
      name: "beginnings", caption: "How the answer could have begun; the shares are those left after the filters",
      columns: ["first token", "chance"],
      rows: rows.map((row) => ({
        selected: row.id === first.token, cells: [chip(row), bar(row.final, quantity(`beginning-${row.id}`, row.final, percent))],
      })),
    }),
    note(greedy ? "At temperature 0 no number is drawn: every seed gives this beginning." : "Another seed draws another number, which can land on another row; every later step then reads another text."),
    again && element("p", {}, button("Answer again with another seed", () => again(response, otherSeed(seed)), {
      "data-focus": "again", disabled: isActive(response) || response.id === null,
    })),
  ];
}

/** A seed that is not this one. */
function otherSeed(seed) {
  return ((seed ?? 0) + 1) % 2 ** 31;
}
