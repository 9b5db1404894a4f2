/** What a person can do with a conversation: open, send, stop, edit, answer again. No DOM. */

import * as api from "./api.js";
import { freshId } from "./ids.js";
import { isActive } from "./record.js";
import * as responses from "./responses.js";
import { toHash } from "./selection.js";
import { get, set } from "./store.js";
import { choiceKey, visiblePath } from "./thread.js";

/** Tells the other tabs of this browser that a conversation has changed, and with it the list. */
const otherTabs = "BroadcastChannel" in window ? new BroadcastChannel("webtrace") : null;
const FIRST_TURN = "root"; // as parent_id: beside the first turn; null would mean under the newest
const choices = new Map(); // parent message -> version chosen under it

/** `elsewhere()` is told of changes that another tab has made. */
export function start(elsewhere) {
  otherTabs?.addEventListener("message", ({ data }) => {
    if (data.conversation === get().conversation.id) refresh();
    elsewhere();
  });
  addEventListener("focus", refresh);
}

/** Show an empty conversation; it exists once something is sent. */
export function startNew() {
  set({ conversation: fresh({ state: "ready" }), messages: [] });
  responses.show(null);
  goTo("/");
}

export function fresh(fields) {
  return { key: freshId(), id: null, title: "", instructions: "", sampling: {}, state: "loading", error: null, ...fields };
}

export async function open(id, { keepAddress = false } = {}) {
  const conversation = fresh({ id });
  set({ conversation, messages: [] });
  responses.show(null);
  if (!keepAddress) goTo(`/c/${id}`);
  await load(conversation);
}

export async function rename(id, title) {
  await api.renameConversation(id, title);
  otherTabs?.postMessage({ conversation: id });
  await refresh();
}

export async function remove(id) {
  await api.deleteConversation(id);
  otherTabs?.postMessage({ conversation: id });
  if (get().conversation.id === id) startNew();
}

/** Read the conversation again: another tab may have written to it. */
export async function refresh() {
  const { conversation } = get();
  if (conversation.id !== null && conversation.state === "ready") await load(conversation);
}

async function load(conversation) {
  try {
    const found = await api.getConversation(conversation.id);
    if (get().conversation.key !== conversation.key) return; // the reader has moved on
    const unsent = get().messages.filter(({ local }) => local);
    const messages = [...found.messages.map(withRecord), ...unsent.filter(({ id }) => !found.messages.some((message) => message.id === id))];
    set({
      conversation: { ...get().conversation, title: found.title, instructions: found.instructions, sampling: found.sampling, state: "ready", error: null },
      messages,
    });
    if (conversation.state === "loading") reveal(get().selection.response);
    follow();
  } catch (error) {
    if (get().conversation.key !== conversation.key) return;
    if (conversation.state === "ready" && error.status !== 404) return; // keep what is there
    set({ conversation: { ...conversation, state: error.status === 404 ? "missing" : "error", error } });
  }
}

function withRecord(message) {
  if (message.response === null) return message;
  const { id, status, finish_reason: finishReason, feedback } = message.response;
  const record = responses.adopt({
    id, status, finishReason, feedback, answerId: message.id, text: isActive({ status }) ? "" : message.content,
    html: message.html,
  });
  return { ...message, record };
}

/** The path the reader sees: [{message, versions}]. */
export function path() {
  return visiblePath(get().messages, choices);
}

/** Choose another version of a turn. */
export function chooseVersion(message, id) {
  choices.set(choiceKey(get().messages, message), id);
  set({ messages: get().messages });
  follow();
}

/** Put the reader's path through the answer to this response, in whatever version it stands. */
function reveal(response) {
  const { messages } = get();
  let message = response === null ? undefined : messages.find(({ record }) => record?.id === response);
  while (message !== undefined) {
    choose(message);
    const { parent_id: parent } = message;
    message = messages.find(({ id }) => id === parent);
  }
}

/** Let the trace show the answer named in the address, else the newest one on the path. */
export function follow() {
  const answers = path().map(({ message }) => message.record).filter(Boolean);
  const wanted = get().selection.response;
  const record = answers.find(({ id }) => id !== null && id === wanted) ?? answers.at(-1) ?? null;
  if (record !== get().response) responses.show(record);
  if (record !== null) responses.loadJourney(record);
}

/** Let the trace show this answer. */
export function look(record) {
  const answers = path().map(({ message }) => message.record).filter(Boolean);
  const selection = { ...get().selection, step: null, position: null, response: record === answers.at(-1) ? null : record.id };
  set({ selection });
  history.replaceState(null, "", location.pathname + toHash(selection));
  follow();
}

/** The answer that is being made at the end of the path, if any. */
export function active() {
  const record = path().at(-1)?.message.record;
  return record && isActive(record) && !record.cancelling ? record : null;
}

/** Whether the newest request still waits for its name; until then nothing can be sent under it. */
export function isUnconfirmed() {
  const last = path().at(-1)?.message;
  return Boolean(last?.record && last.record.status === "sending");
}

/** The newest message on the path that the service has stored; a refused request leaves none. */
function storedEnd() {
  return path().findLast(({ message }) => !message.local)?.message.id ?? null;
}

/** Send a prompt under `parentId` (default: the end of the path). */
export function send(input, { model, sampling, instructions, parentId = storedEnd() }) {
  const { conversation } = get();
  const id = freshId();
  const user = { id: `user ${id}`, parent_id: parentId === FIRST_TURN ? null : parentId, role: "user", content: input, response: null, local: true, record: null };
  set({ messages: [...get().messages, user] });
  choose(user);
  ask(user, id, { input, conversation_id: conversation.id, instructions: instructions || null, model, sampling, parent_id: parentId });
  keepInstructions(instructions);
}

/** Ask for an answer under the message `prompt`, and show it. `fields` are the frame's own. */
function ask(prompt, eventId, fields) {
  const { conversation } = get();
  const record = responses.request({ type: "response.create", event_id: eventId, breakpoints: get().breakpoints, ...fields }, { conversationKey: conversation.key });
  const answer = { id: `answer ${eventId}`, parent_id: prompt.id, role: "assistant", content: "", response: null, local: true, record };
  set({ messages: [...get().messages, answer], selection: { ...get().selection, step: null, position: null, response: null } });
  choose(answer);
  responses.show(record);
}

/** Put the reader's path through this message. */
function choose(message) {
  choices.set(choiceKey(get().messages, message), message.id);
}

function keepInstructions(instructions) {
  const { conversation } = get();
  set({ conversation: { ...conversation, instructions } });
  if (conversation.id !== null && instructions !== conversation.instructions) {
    api.setInstructions(conversation.id, instructions).catch(reportError); // the request has them in any case
  }
}

/** A request of its own, in a conversation that is not the one being read. */
export function askAside(input, sampling) {
  return responses.request({ type: "response.create", event_id: freshId(), input, sampling }, { conversationKey: freshId() });
}

/** Ask for the answer to these words in a message's place: a new version beside the old one. */
export function resend(message, input, options) {
  const parentId = message.parent_id ?? (get().conversation.id === null ? null : FIRST_TURN);
  send(input, { ...options, parentId });
}

/** Ask for another version of this answer. */
export function answerAgain(record, { model, sampling, instructions }) {
  const prompt = promptOf(record);
  if (prompt?.local) resend(prompt, prompt.content, { model, sampling, instructions }); // it was refused, and not stored
  else if (prompt) {
    ask(prompt, freshId(), { input: [], conversation_id: get().conversation.id, instructions, model, sampling, parent_id: prompt.id });
    keepInstructions(instructions);
  }
}

/** Ask for the answer that is this one up to `step`, has `token` there, and goes on from it by the same settings. */
export function branch(record, step, token) {
  const prompt = promptOf(record);
  if (prompt) ask(prompt, freshId(), { input: [], sampling: record.sampling, branch: { response_id: record.id, step, token } });
}

/** The message that this answer on the path belongs to. */
function promptOf(record) {
  const turns = path().map(({ message }) => message);
  const answer = turns.find((message) => message.record === record);
  return turns.find(({ id }) => id === answer?.parent_id);
}

export function stop() {
  const record = active();
  if (record !== null) responses.cancel(record);
  return record;
}

/** The service has named a response: its messages and perhaps its conversation get their ids. */
export function created(record, event) {
  const { conversation } = get();
  if (record.conversationKey !== conversation.key) return; // the reader is elsewhere; reopening reads it all
  if (event.message_id !== null) {
    const names = new Map([
      [`user ${event.event_id}`, event.message_id],
      [`answer ${event.event_id}`, event.answer_id],
    ].filter(([local]) => get().messages.some(({ id }) => id === local)));
    for (const [parent, choice] of choices) if (names.has(choice)) choices.set(parent, names.get(choice));
    const ids = new Set(names.values()); // a reading of the conversation may have brought these messages before
    set({
      messages: get().messages.filter(({ id }) => !ids.has(id)).map((message) => ({
        ...message,
        id: names.get(message.id) ?? message.id,
        parent_id: names.get(message.parent_id) ?? message.parent_id,
        local: message.local && !names.has(message.id),
      })),
    });
  }
  if (event.conversation_id !== null && conversation.id !== event.conversation_id) {
    set({ conversation: { ...conversation, id: event.conversation_id, title: event.title ?? "", state: "ready" } });
    history.replaceState(null, "", `/c/${event.conversation_id}${location.hash}`);
  }
  otherTabs?.postMessage({ conversation: event.conversation_id });
}

/** An answer has ended: fetch its finished form. */
export async function ended(record) {
  otherTabs?.postMessage({ conversation: get().conversation.id });
  if (record.id === null) return;
  try {
    const found = await api.getResponse(record.id);
    record.html = found.html;
    record.feedback = found.feedback;
    responses.touch(record);
  } catch {
    // The plain text stays; the next visit shows the finished form.
  }
}

function goTo(address) {
  if (location.pathname !== address) history.pushState(null, "", address);
}
