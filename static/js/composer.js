/** Where the prompt is written. Enter sends, Shift+Enter breaks the line, Escape stops; drafts survive a reload. */

import * as conversation from "./conversation.js";
import { button, element, form, setText } from "./dom.js";
import { icon } from "./icons.js";
import { createSettings } from "./settings.js";
import { get, subscribe } from "./store.js";
import { forget, read, write } from "./stored.js";

/** Mounts the composer at the end of `host`. Returns `options()` for a new request, `send(text)` and `focus()`. */
export function mountComposer(host, { samplingDefaults, maxTokens }) {
  const settings = createSettings({ defaults: samplingDefaults, maxTokens });
  const field = element("textarea", {
    id: "composer-input", rows: 1, dir: "auto", placeholder: "Type a prompt", "aria-label": "Prompt", autocomplete: "off",
  });
  const problem = element("p", { class: "field-error", role: "alert" });
  const sendButton = element("button", { type: "submit", class: "primary send-button" }, icon("send"), "Send");
  const stopButton = button([icon("stop"), "Stop"], stop, { class: "send-button", hidden: true });
  host.append(form(
    submit, { class: "composer", novalidate: true },
    problem,
    field,
    element("div", { class: "composer-bar" }, settings.node, element("span", { class: "composer-send" }, stopButton, sendButton)),
  ));

  let draftKey = null;
  field.addEventListener("input", () => {
    grow();
    if (field.value === "") forget(draftKey);
    else write(draftKey, field.value);
    setText(problem, "");
    refresh();
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented || document.querySelector("dialog[open]") !== null) return;
    if (event.target.closest(".rail") === null) stop(); // there it clears the search, or closes a menu
  });

  function submit() {
    const text = field.value;
    if (text.trim() === "" || sendButton.disabled) return;
    if (!send(text)) return;
    field.value = "";
    forget(draftKey);
    grow();
  }

  /** Send this text, unless the settings are wrong: then say so and open them. */
  function send(text) {
    const fault = settings.fault();
    if (fault !== null) {
      settings.open();
      return false;
    }
    setText(problem, "");
    conversation.send(text, settings.options());
    return true;
  }

  function stop() {
    if (conversation.stop() !== null) field.focus();
  }

  function grow() {
    field.style.setProperty("--rows", String(Math.min(field.value.split("\n").length, 10)));
    if (CSS.supports("field-sizing", "content")) return;
    field.style.setProperty("block-size", "auto");
    field.style.setProperty("block-size", `${Math.min(field.scrollHeight + 2, 240)}px`);
  }

  function refresh() {
    const active = conversation.active();
    stopButton.hidden = active === null;
    sendButton.hidden = active !== null;
    sendButton.disabled = field.value.trim() === "" || conversation.isUnconfirmed() || get().connection === "closed";
  }

  subscribe(["conversation"], ({ conversation: current }) => {
    const key = `draft ${current.id ?? "new"}`;
    if (key === draftKey) return;
    const isNewlyNamed = draftKey === "draft new" && current.id !== null && field.value !== "" && current.state === "ready";
    draftKey = key;
    if (isNewlyNamed) return; // the conversation got its id while the next prompt was being written
    field.value = read(draftKey) ?? "";
    grow();
  });
  subscribe(["conversation"], ({ conversation: current }) => settings.show(current));
  subscribe(["messages", "records", "conversation", "connection"], refresh);
  let reported = null;
  subscribe(["response"], ({ response }) => {
    const error = response?.error ?? null;
    if (error === reported || response === null || response.sentAt === null) return;
    reported = error;
    if (error?.field) settings.report(error.field, error.message);
  });

  return { options: settings.options, send, focus: () => field.focus() };
}
