/**
 * A trace as one JSON file (its schema: /api/v1/schema/trace): saved with the views that were looked at, read again
 * without the service. What a file says is checked before it is believed, and never becomes markup.
 */

import * as api from "./api.js";
import { accept, createRecord } from "./record.js";
import { sourceOf } from "./source.js";
import { keptViews, viewKey } from "./views.js";

const FORMAT = "webtrace trace";
const VERSION = 1;
const TYPES = { F32: Float32Array, I32: Int32Array };
const LARGEST_DIMENSION = 1_000_000;
const AT_ONCE = 200; // events applied before the page may draw again
const PIECE = 8192; // bytes made into text at once

/** The file of a record, as text. */
export async function writeTrace(record, fragment) {
  const { address } = sourceOf(record);
  const file = await api.getTrace(address);
  return JSON.stringify({ ...file, fragment, views: keptViews(address).map(packed) });
}

function packed({ slug, query, view: { info, tensors } }) {
  const pack = ({ shape, data }) => ({ dtype: data instanceof Int32Array ? "I32" : "F32", shape, data: toBase64(data) });
  return { slug, query, info, tensors: Object.fromEntries(Object.entries(tensors).map(([name, one]) => [name, pack(one)])) };
}

/** Read a file's text: `{record, prompt, model, fragment}`. Rejects with an Error that names what is wrong. */
export async function readTrace(text) {
  let file;
  try {
    file = JSON.parse(text);
  } catch {
    throw new Error("This file is not JSON.");
  }
  check(file);
  const { response, model, events, views = [], fragment = "" } = file;
  const record = createRecord({
    id: response.id, status: response.status, finishReason: response.finish_reason, text: response.text,
    sampling: response.sampling, isReplay: true, source: fileSource(views),
  });
  for (let from = 0; from < events.length; from += AT_ONCE) {
    events.slice(from, from + AT_ONCE).forEach((event, index) => apply(record, event, from + index));
    await new Promise((resolve) => setTimeout(resolve));
  }
  if (record.endedAt === null) throw new Error("The file stops before its answer does: events has no end.");
  return { record, prompt: response.prompt, model, fragment };
}

function apply(record, event, index) {
  try {
    accept(record, event, { fromLog: true });
  } catch {
    throw new Error(`events[${index}] cannot be read.`);
  }
}

function fileSource(views) {
  const kept = new Map(views.map((view) => [viewKey(view.slug, view.query), view]));
  return {
    address: null,
    events: async () => ({ events: [] }),
    async view(slug, query) {
      const view = kept.get(viewKey(slug, query));
      if (view === undefined) {
        const message = "This picture is not in the file: it holds those that were open before it was saved.";
        throw Object.assign(new Error(message), { code: "not_in_file", isFinal: true });
      }
      return { info: view.info, tensors: Object.fromEntries(Object.entries(view.tensors).map(([name, one]) => [name, unpacked(one)])) };
    },
  };
}

function unpacked({ dtype, shape, data }) {
  const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
  return { shape, data: new TYPES[dtype](bytes.buffer) };
}

function toBase64({ buffer }) {
  const bytes = new Uint8Array(buffer);
  let text = "";
  for (let from = 0; from < bytes.length; from += PIECE) text += String.fromCharCode(...bytes.subarray(from, from + PIECE));
  return btoa(text);
}

// ------------------------------------------------------------------------------------------------ checks

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const isText = (value) => typeof value === "string";
const isSize = (value) => Number.isInteger(value) && value > 0 && value <= LARGEST_DIMENSION;

function require(name, holds, what) {
  if (!holds) throw new Error(`${name} must be ${what}.`);
}

function check(file) {
  require("The file", isObject(file) && file.format === FORMAT, `a trace: its format must be “${FORMAT}”`);
  require("version", file.version === VERSION, `${VERSION}, the only one this page reads, not ${String(file.version).slice(0, 20)}`);
  const { response, model, events, views = [], fragment = "" } = file;
  require("fragment", isText(fragment), "text");
  require("response", isObject(response), "an object");
  for (const name of ["id", "prompt", "status", "text"]) require(`response.${name}`, isText(response[name]), "text");
  require("response.sampling", isObject(response.sampling), "an object");
  require("model", model === null || isObject(model), "an object or null");
  for (const name of ["n_layers", "n_heads", "n_kv_heads", "head_width", "width", "vocabulary"]) {
    require(`model.${name}`, model === null || isSize(model[name]), `a whole number from 1 to ${LARGEST_DIMENSION}`);
  }
  for (const name of ["windows", "rotates"]) {
    require(`model.${name}`, model === null || (Array.isArray(model[name]) && model[name].length === model.n_layers), "a list with a place for every layer");
  }
  require("model.score_divisor", model === null || model.score_divisor > 0, "a number above 0");
  require("events", Array.isArray(events), "a list");
  events.forEach((event, index) => {
    const good = isObject(event) && isText(event.type) && Number.isInteger(event.epoch) && Number.isInteger(event.sequence_number);
    require(`events[${index}]`, good, "an object with type, epoch and sequence_number");
  });
  require("views", Array.isArray(views), "a list");
  views.forEach(checkView);
}

function checkView(view, index) {
  const name = `views[${index}]`;
  const good = isObject(view) && isText(view.slug) && isObject(view.query) && isObject(view.info) && isObject(view.tensors);
  require(name, good, "an object with slug, query, info and tensors");
  for (const [key, tensor] of Object.entries(view.tensors)) {
    const isTensor = isObject(tensor) && Object.hasOwn(TYPES, tensor.dtype) && Array.isArray(tensor.shape) && isText(tensor.data);
    require(`${name}.tensors.${key}`, isTensor, "an object with dtype F32 or I32, shape and data");
    const size = tensor.shape.reduce((product, one) => product * one, 4);
    require(`${name}.tensors.${key}.data`, base64Size(tensor.data) === size, `${size} bytes in base64, as its shape says`);
  }
}

function base64Size(text) {
  return /^[A-Za-z0-9+/]*={0,2}$/.test(text) && text.length % 4 === 0
    ? (text.length / 4) * 3 - (text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0) : -1;
}
