/** The conversation pane: turns in order, kept at the bottom only for a reader who is at the bottom. */

import { createAnswer } from "./answer.js";
import * as conversation from "./conversation.js";
import { element, setText } from "./dom.js";
import { iconButton } from "./icons.js";
import { subscribe } from "./store.js";

const NEAR_PX = 48;
const EXAMPLES = [
  "Tell me a political joke",
  "Explain in two sentences why the sky is blue",
  "The capital of France is Paris. The capital of Italy is",
];

/**
 * `empty` stands where there are no messages. `actions.options()` gives the sampling and instructions for a new request;
 * without `actions` the turns can only be read.
 */
export function mountChat(host, { empty, actions }) {
  const list = element("ol", { class: "messages", "aria-label": "Messages" });
  const notice = element("p", { class: "notice", role: "status", hidden: true });
  const scroller = element("div", { class: "chat-scroll" }, empty, notice, list);
  host.prepend(scroller);
  const turns = new Map(); // message key -> turn
  let pinned = true;
  scroller.addEventListener("scroll", () => {
    pinned = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < NEAR_PX;
  }, { passive: true });

  // After the layout that the growth takes anyway: reading the height while the text grows would make another.
  const sizes = new ResizeObserver(() => {
    if (pinned && empty.hidden) scroller.scrollTop = scroller.scrollHeight;
  });
  for (const part of [scroller, list]) sizes.observe(part);

  subscribe(["messages", "conversation"], (state) => {
    const path = conversation.path();
    const { conversation: current } = state;
    empty.hidden = path.length > 0 || current.id !== null;
    showNotice(notice, current);
    const wanted = path.map(({ message, versions }) => {
      const key = keyOf(message);
      const turn = turns.get(key) ?? createTurn(message, actions);
      turns.set(key, turn);
      turn.update(message, versions);
      return turn;
    });
    const keep = new Set(wanted);
    for (const [key, turn] of turns) if (!keep.has(turn)) turns.delete(key);
    placeInOrder(list, wanted.map(({ node }) => node));
  });
  subscribe(["records", "response", "selection", "connection"], () => {
    for (const turn of turns.values()) turn.refresh();
  });
}

/** A turn keeps its element when the service gives its message an id: the record stays the same. */
function keyOf(message) {
  return message.record ?? message.id;
}

function placeInOrder(list, nodes) {
  nodes.forEach((node, index) => {
    if (list.children[index] !== node) list.insertBefore(node, list.children[index] ?? null);
  });
  while (list.children.length > nodes.length) list.lastChild.remove();
}

function showNotice(notice, { state, error }) {
  const texts = {
    loading: "Loading the conversation.",
    missing: "There is no such conversation here. It may have been deleted, or belong to another account.",
    error: error?.message,
  };
  notice.hidden = !(state in texts);
  notice.classList.toggle("alarm", state === "missing" || state === "error");
  setText(notice, texts[state] ?? "");
}

/** What a first visit sees; `onSend(text)` sends an example. */
export function welcome(onSend) {
  return element(
    "section",
    { class: "welcome" },
    element("h1", {}, "Watch a language model answer"),
    element(
      "p",
      {},
      "Send a prompt and follow it through 27 stages: from the message your browser sends, through attention and " +
        "probabilities, to the words that come back. Every number is from your own request.",
    ),
    element(
      "ul",
      { class: "examples", "aria-label": "Examples" },
      EXAMPLES.map((text) => element("li", {}, element("button", { type: "button", onclick: () => onSend(text) }, text))),
    ),
    element("p", { class: "soft small" }, "To hold the request at a stage and look around there, press the pause sign beside the stage's name, right-click its station, or press B on it."),
    element("p", { class: "soft small" }, "One representative system with a small model: not the insides of any particular product."),
  );
}

function createTurn(message, actions) {
  return message.role === "assistant" ? createAnswerTurn(message, actions) : createUserTurn(message, actions);
}

function createUserTurn(first, actions) {
  let message = first;
  const text = element("p", { class: "message-text", dir: "auto" });
  const versions = createVersions();
  const edit = actions && iconButton("edit", "Edit and send again", { onclick: () => editor.open() });
  const tools = element("div", { class: "message-tools" }, versions.node, edit);
  const body = element("div", { class: "message-body" }, text, tools);
  const node = element("li", { class: "message message-user" }, element("h3", { class: "message-role" }, "You"), body);
  const editor = createEditor(body, {
    text: () => message.content,
    send: (changed) => conversation.resend(message, changed, actions.options()),
  });
  return {
    node,
    update(next, ids) {
      message = next;
      setText(text, message.content);
      versions.update(message, ids);
    },
    refresh() {},
  };
}

/** Changes a message in place: Enter sends it as a new version, Escape leaves it as it was. */
function createEditor(body, { text, send }) {
  const field = element("textarea", { rows: 3, dir: "auto", "aria-label": "Edit your message" });
  const close = () => {
    form.remove();
    for (const child of body.children) child.hidden = false;
    body.querySelector("[aria-label='Edit and send again']").focus();
  };
  const submit = () => {
    if (field.value.trim() === "") return;
    close();
    send(field.value);
  };
  const form = element(
    "form",
    { class: "message-editor", onsubmit: (event) => { event.preventDefault(); submit(); } },
    field,
    element(
      "div",
      { class: "dialog-actions" },
      element("button", { type: "button", onclick: close }, "Cancel"),
      element("button", { type: "submit", class: "primary" }, "Send as a new version"),
    ),
  );
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      submit();
    }
  });
  return {
    open() {
      field.value = text();
      for (const child of body.children) child.hidden = true;
      body.append(form);
      field.focus();
    },
  };
}

/** "◂ 2 of 3 ▸" where a turn has several versions. */
function createVersions() {
  let message = null;
  let ids = [];
  const go = (by) => conversation.chooseVersion(message, ids[ids.indexOf(message.id) + by]);
  const older = iconButton("back", "Older version", { onclick: () => go(-1) });
  const newer = iconButton("forward", "Newer version", { onclick: () => go(1) });
  const place = element("span", {});
  const node = element("span", { class: "versions", role: "group", "aria-label": "Versions" }, older, place, newer);
  return {
    node,
    update(next, all) {
      message = next;
      ids = all;
      const index = ids.indexOf(message.id);
      node.hidden = ids.length < 2;
      older.disabled = index <= 0;
      newer.disabled = index === ids.length - 1;
      setText(place, `${index + 1} of ${ids.length}`);
    },
  };
}

function createAnswerTurn(first, actions) {
  let message = first;
  const versions = createVersions();
  const answer = createAnswer({
    record: first.record,
    versions: versions.node,
    branch: actions && ((step, token) => conversation.branch(first.record, step, token)),
    again: actions && (() => conversation.answerAgain(first.record, actions.options())),
  });
  return {
    node: element("li", { class: "message message-answer" }, element("h3", { class: "message-role" }, "Model"), answer.node),
    update(next, ids) {
      message = next;
      versions.update(message, ids);
      answer.refresh();
    },
    refresh: answer.refresh,
  };
}
