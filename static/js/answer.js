/** One answer: its honest state, the growing text, the finished form, the tokens beneath, and what to do with it. */

import { placeName } from "./breakpoints.js";
import { look } from "./conversation.js";
import { button, element, setServerHtml } from "./dom.js";
import { createChips } from "./chips.js";
import { createFeedback } from "./feedback.js";
import { duration, plural, wait } from "./format.js";
import { iconButton } from "./icons.js";
import { accountLink } from "./links.js";
import { isActive } from "./record.js";
import { openShare } from "./share.js";
import { sourceOf } from "./source.js";
import { get } from "./store.js";

/** `again()` asks for another version and `branch(step, token)` for one from a token on, both null where one can only read; `versions` is the switch between those there are. */
export function createAnswer({ record, versions, again, branch }) {
  const growing = document.createTextNode("");
  const text = element("div", { class: "answer-text growing", dir: "auto" }, growing);
  const finished = element("div", { class: "answer-text prose", hidden: true });
  const state = element("p", { class: "answer-state" });
  const chips = createChips(record, branch);
  const feedback = createFeedback(record);
  const copy = copyButton("Copy the answer", () => record.text);
  const share = iconButton("share", "Share or save", { onclick: () => openShare(record, { mayShare: again !== null }) });
  const inside = button("Look inside", () => look(record), { class: "quiet" });
  const tools = element(
    "div",
    { class: "message-tools" },
    copy, share, again && [iconButton("again", "Answer again", { onclick: again }), feedback.buttons], versions, inside,
  );
  const node = element("div", { class: "message-body" }, text, finished, state, chips.node, tools, feedback.node);
  let seen = null; // what the words about its state depend on
  let shownHtml = null;

  function refresh() {
    const inView = get().response === record;
    inside.hidden = inView || record.id === null;
    chips.refresh(inView);
    const now = `${record.version} ${get().connection}`;
    if (seen === now) return;
    seen = now;
    const active = isActive(record);
    node.dataset.state = record.status;
    node.setAttribute("aria-busy", String(active));
    showText(growing, record.text);
    if (!active && record.html !== null && record.html !== shownHtml) {
      shownHtml = record.html;
      setServerHtml(finished, record.html);
      for (const block of finished.children) block.dir = "auto";
      for (const code of finished.querySelectorAll("pre")) code.prepend(copyButton("Copy the code", () => code.querySelector("code").textContent));
    }
    finished.hidden = active || !record.html;
    text.hidden = !finished.hidden || record.text === "";
    const { words, alarm } = describeState(record);
    state.classList.toggle("alarm", alarm);
    if (!state.textContent.startsWith(words) || !active) state.replaceChildren(words, ...remedies(record, again));
    tools.classList.toggle("versions-only", active);
    copy.hidden = record.text === "";
    share.hidden = record.id === null || sourceOf(record).address === null;
    feedback.refresh();
  }
  refresh();
  return { node, refresh };
}

/** Bring the text node up to date with one write: append where the text grew, cut where some was taken back. */
function showText(node, text) {
  const shown = node.data;
  if (shown === text) return;
  if (text.startsWith(shown)) node.appendData(text.slice(shown.length));
  else if (shown.startsWith(text)) node.deleteData(text.length, shown.length - text.length);
  else node.data = text;
}

/** The state in words, for every state there is. */
export function describeState(record) {
  const say = (words, alarm = false) => ({ words, alarm });
  const numTokens = record.usage?.output_tokens ?? record.steps.length;
  if (record.cancelling && isActive(record)) return say("Stopping");
  switch (record.status) {
    case "sending":
      return say(get().connection === "open" ? "Sending" : "Connecting: it will be sent as soon as the service answers");
    case "queued":
      if (record.queuePosition === null) return say("Checking the request");
      return say(record.queuePosition === 0 ? "Queued: next in line" : `Queued behind ${plural(record.queuePosition, "request")}`);
    case "in_progress": {
      if (get().connection !== "open") return say("Connection lost: the answer goes on, and will be shown when it is back");
      if (record.held !== null) return say(`Held after ${placeName(record.held)}: Next, Run and Stop are under the map`);
      if (numTokens > 0) return say(`Streaming: ${plural(numTokens, "token")}`);
      return say(record.numPromptTokens > 0 ? `Thinking: reading ${plural(record.numPromptTokens, "token")}` : "Thinking");
    }
    case "completed":
      if (record.finishReason === "refusal") return say("Declined by input safety: the model was not asked", true);
      return say(`Complete${ofTokens(record, numTokens)}`);
    case "incomplete":
      if (record.finishReason === "content_filter") return say("Cut short: output safety held the rest back", true);
      return say(record.sampling === null ? "Cut at its limit" : `Cut at the limit of ${plural(record.sampling.max_tokens, "token")}`);
    case "cancelled":
      return say(record.finishReason === "disconnected" ? "Stopped: nobody was watching any more" : `Stopped${ofTokens(record, numTokens, "after")}`);
    case "interrupted":
      return say("Interrupted: the worker was lost. What stands here is what it had finished.", true);
    default:
      return say(failureWords(record), true);
  }
}

function ofTokens(record, numTokens, preposition = "in") {
  const took = record.endedAt !== null && record.sentAt !== null ? ` ${preposition} ${duration(record.endedAt - record.sentAt - record.heldMs)}` : "";
  return numTokens > 0 ? `: ${plural(numTokens, "token")}${took}` : took;
}

function failureWords({ error, finishReason, stages }) {
  const refused = stages.get("gateway")?.outcome === "passed" ? "Refused" : "Refused by the gateway";
  const start = finishReason === "refused" ? refused : "Failed";
  if (error === null) return start;
  const field = error.field ? ` (${error.field})` : "";
  const later = error.retry_after ? ` Try again in ${wait(error.retry_after)}.` : "";
  return `${start}${field}: ${error.message}${later}`;
}

/** What a reader can do about it: where the service broke down ask again; a guest at the limit may sign up for a wider one. */
function remedies({ status, finishReason, error }, again) {
  const brokeDown = status === "interrupted" || (status === "failed" && finishReason !== "refused");
  if (brokeDown && again !== null) return [" ", button("Try once more", again)];
  if (!error?.retry_after || !get().me?.guest) return [];
  return [" ", accountLink("signup", "Sign up for a wider limit"), " and keep this conversation."];
}

/** A button that copies what `text()` gives, and says whether it could. */
function copyButton(label, text) {
  const button = iconButton("copy", label, {
    async onclick() {
      try {
        await navigator.clipboard.writeText(text());
        button.dataset.done = "copied";
      } catch {
        button.dataset.done = "not allowed by the browser";
      }
      button.addEventListener("blur", () => delete button.dataset.done, { once: true });
    },
  });
  return button;
}
