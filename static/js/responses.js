/**
 * All responses this tab knows, kept up to date from the socket and, where it lost something, from the log over HTTP.
 */

import * as api from "./api.js";
import { freshId } from "./ids.js";
import { accept, createRecord, isActive } from "./record.js";
import { sourceOf } from "./source.js";
import { get, set } from "./store.js";

const QUIET_MS = 3000; // an active response that has been silent for so long is read from the log
const DROPPED_WAIT_MS = 1000; // a slow socket has fallen behind: let it catch up before asking for more

const byId = new Map();
const byEventId = new Map();
const lastHeard = new Map(); // response id -> performance.now()
const reading = new Map(); // response id -> promise of the reading in progress
let socket = null;
let onCreated = () => {};
let onEnded = () => {};

/** `created(record, event)` after the service has named a response, `ended(record)` after its end, both once. */
export function start(theSocket, { created, ended }) {
  socket = theSocket;
  onCreated = created;
  onEnded = ended;
  setInterval(pollQuiet, 1000);
}

export function find(id) {
  return byId.get(id) ?? null;
}

/** Ask for an answer. The record exists at once; the service names it in `response.created`. */
export function request(frame, fields) {
  const record = createRecord({ ...fields, eventId: frame.event_id, sampling: frame.sampling, breakpoints: frame.breakpoints ?? [], sentAt: performance.now() });
  byEventId.set(frame.event_id, record);
  socket.sendReliably(frame);
  return record;
}

/** Stop an answer. What has arrived stays; nothing that still comes is shown before the service's own end. */
export function cancel(record) {
  record.cancelling = true;
  if (record.id !== null) socket.send({ type: "response.cancel", event_id: freshId(), response_id: record.id });
  touch(record);
}

/** Let a held response go on, by the breakpoints that are set now: `until` is "next", "end", a stage's slug or {step}. */
export function proceed(record, until) {
  const { breakpoints } = get();
  if (!socket.isOpen) return;
  record.held.asked = freshId();
  record.breakpoints = breakpoints;
  socket.send({ type: "response.continue", event_id: record.held.asked, response_id: record.id, until, breakpoints });
  touch(record);
}

/** Who comes late asks how much of a hold is left, and takes over the breakpoints that were set elsewhere. */
async function catchUp(record) {
  const { held, breakpoints } = record;
  const found = await api.getResponse(record.id).catch(() => null); // then the full time is shown
  if (found === null) return;
  if (record.breakpoints === breakpoints && get().response === record) {
    record.breakpoints = found.breakpoints;
    if (JSON.stringify(found.breakpoints) !== JSON.stringify(breakpoints ?? [])) set({ breakpoints: found.breakpoints });
  }
  if (!found.held || record.held !== held || held === null) return;
  held.releasesAt = performance.now() + found.held.releases_in_s * 1000;
  touch(record);
}

/** The record of a response the service has told about; an unfinished one is watched from its beginning. */
export function adopt({ id, ...fields }) {
  let record = byId.get(id);
  if (record === undefined) {
    record = createRecord({ id, ...fields });
    record.isReplay = !isActive(record);
    byId.set(id, record);
    if (!record.isReplay) {
      watch(record);
      catchUp(record);
    }
  }
  return record;
}

/** Read a finished response's journey from the log, once. */
export function loadJourney(record) {
  if (record.id === null || record.last > 0 || isActive(record)) return Promise.resolve();
  return readLog(record);
}

/** After every (re)connection: go on where each unfinished response was left. */
export function resumeAll() {
  for (const record of byId.values()) if (isActive(record)) watch(record);
}

function watch(record) {
  lastHeard.set(record.id, performance.now());
  socket.send({
    type: "response.resume", event_id: freshId(), response_id: record.id, epoch: record.epoch, after: record.last,
  });
  if (record.held !== null) record.held.asked = null; // perhaps it was lost on the way
  if (record.cancelling) cancel(record);
}

/** Have the newest attention rows of one head pushed while the response grows; without a layer, no more. */
export function watchHead(record, { layer = null, head = null }) {
  socket.send({ type: "trace.watch", event_id: freshId(), response_id: record.id, layer, head });
}

/** Take a message of the socket that belongs to a response. */
export function receive(event) {
  if (event.type === "trace.attention") return set({ attention: event });
  const record = byId.get(event.response_id) ?? named(event);
  if (record === null) return;
  lastHeard.set(record.id, performance.now());
  const complete = take(record, event, false);
  if (!complete) readLog(record);
  else if (event.type === "trace.dropped") setTimeout(() => readDropped(record), DROPPED_WAIT_MS);
}

/** A frame that the service could not take: a request that never became a response, or a hold that did not end by it. */
export function reject(error) {
  const held = [...byId.values()].find(({ held: hold }) => error.event_id && hold?.asked === error.event_id);
  if (held !== undefined) {
    held.held.asked = null;
    touch(held);
    return true;
  }
  const record = byEventId.get(error.event_id);
  if (record === undefined || record.id !== null) return false;
  socket.confirm(error.event_id);
  record.status = "failed";
  record.finishReason = "error";
  record.error = error;
  touch(record);
  onEnded(record);
  return true;
}

function named(event) {
  if (event.type !== "response.created") return null;
  const record = byEventId.get(event.event_id);
  if (record === undefined) return null;
  byEventId.delete(event.event_id);
  socket.confirm(event.event_id);
  byId.set(event.response_id, record);
  return record;
}

function take(record, event, fromLog) {
  const wasActive = isActive(record);
  const wasNamed = record.id !== null && record.answerId !== null;
  const complete = accept(record, event, { fromLog });
  if (event.type === "response.created" && !wasNamed) {
    onCreated(record, event);
    if (record.cancelling) cancel(record);
  }
  if (event.type === "response.held" && record.held !== null) catchUp(record);
  if (wasActive && !isActive(record)) {
    if (record.dropped.length > 0) readDropped(record);
    onEnded(record);
  }
  touch(record);
  return complete;
}

/** Say that a record has changed; those who show it compare its `version`. */
export function touch(record) {
  record.version += 1;
  set({ records: byId });
  if (get().response === record) show(record);
}

/** Make this response the one that the trace shows. */
export function show(record) {
  set({ response: record, model: modelOf(record, get().models), steps: record?.steps ?? [], stages: record?.stages ?? new Map() });
}

/** The model that made this response, else the one that answers who asks for none. */
export function modelOf(record, models) {
  return models.find(({ name }) => name === record?.model) ?? models[0] ?? null;
}

/** Read the log from where the record stands. */
function readLog(record) {
  if (!reading.has(record.id)) {
    const done = readPages(record, [record.epoch, record.last])
      .catch(() => {}) // unreachable: the poll tries again
      .finally(() => reading.delete(record.id));
    reading.set(record.id, done);
  }
  return reading.get(record.id);
}

/** Read the trace events that a slow socket was spared. */
async function readDropped(record) {
  const ranges = record.dropped;
  if (ranges.length === 0) return;
  const [{ epoch, first }] = ranges;
  const end = ranges.at(-1);
  try {
    await readPages(record, [epoch, first - 1], [end.epoch, end.last]);
    record.dropped = record.dropped.filter((range) => !ranges.includes(range));
  } catch {
    setTimeout(() => readDropped(record), QUIET_MS);
  }
}

/** Pages of the log after `from` up to `until` (both [epoch, number]), with a pause between them to draw in. */
async function readPages(record, from, until = [Infinity, 0]) {
  let [epoch, after] = from;
  while (epoch < until[0] || (epoch === until[0] && after < until[1])) {
    const { events } = await sourceOf(record).events(epoch, after);
    if (events.length === 0) return;
    for (const event of events) take(record, event, true);
    ({ epoch, sequence_number: after } = events.at(-1));
    await new Promise((resolve) => setTimeout(resolve));
  }
}

function pollQuiet() {
  const now = performance.now();
  for (const [id, record] of byId) {
    if (!isActive(record) || now - lastHeard.get(id) < QUIET_MS) continue;
    lastHeard.set(id, now);
    readLog(record);
  }
}
