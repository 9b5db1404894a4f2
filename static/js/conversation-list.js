/** The rail: conversations by day, search, rename, delete, export. */

import * as api from "./api.js";
import * as conversation from "./conversation.js";
import { openDialog } from "./dialog.js";
import { button, element, setText } from "./dom.js";
import { icon } from "./icons.js";
import { link } from "./links.js";
import { get, set, subscribe } from "./store.js";

const SEARCH_WAIT_MS = 250;
const DAY_MS = 86_400_000;

/** `onOpen()` is told when a conversation is opened, `onNew()` when a new one is begun. */
export function mountConversationList(host, { onOpen, onNew }) {
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search conversations" });
  const state = element("p", { class: "soft rail-state", role: "status" });
  const groups = element("div", { class: "rail-groups" });
  const more = button("Show more", () => load({ append: true }), { class: "quiet", hidden: true });
  host.append(
    link("/", () => { conversation.startNew(); onOpen(); onNew(); }, { class: "button new-chat" }, icon("plus"), "New conversation"),
    search, state, groups, more,
    element("a", { class: "rail-foot", href: "/open" }, "Open a trace file"),
  );
  let timer = null;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => load(), SEARCH_WAIT_MS);
  });

  async function load({ append = false } = {}) {
    const query = search.value.trim();
    const before = append ? get().conversations.next : null;
    try {
      const found = await api.listConversations({ search: query, before, limit: 40 });
      if (query !== search.value.trim()) return; // an answer to an older question
      const items = append ? [...get().conversations.items, ...found.conversations] : found.conversations;
      set({ conversations: { items, next: found.next, search: query, state: "ready" } });
    } catch (error) {
      set({ conversations: { ...get().conversations, state: "error", error } });
    }
  }

  subscribe(["conversations", "conversation"], ({ conversations, conversation: current }) => {
    setText(state, stateWords(conversations));
    more.hidden = conversations.next === null;
    groups.replaceChildren(
      ...byDay(conversations.items).map(([day, items]) =>
        element(
          "section",
          { class: "rail-group" },
          element("h2", {}, day),
          element("ul", { class: "rail-list" }, items.map((item) => row(item, item.id === current.id, { onOpen, load }))),
        ),
      ),
    );
  });
  load();
  return { reload: () => load() };
}

function stateWords({ state, items, search, error }) {
  if (state === "loading") return "Loading";
  if (state === "error") return error.message;
  if (items.length > 0) return "";
  return search ? `No conversation has “${search}” in its title or messages.` : "Nothing yet. Your conversations appear here.";
}

/** [[day in words, conversations]], newest first, as the service sorts them. */
function byDay(items) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const dayOf = (iso) => {
    const days = Math.ceil((midnight - new Date(iso).getTime()) / DAY_MS);
    if (days <= 0) return "Today";
    if (days === 1) return "Yesterday";
    if (days <= 7) return "In the last week";
    return new Date(iso).toLocaleDateString(undefined, { month: "long", year: "numeric" });
  };
  return [...Map.groupBy(items, ({ updated_at: updated }) => dayOf(updated))];
}

function row(item, isCurrent, { onOpen, load }) {
  const title = item.title || "Untitled";
  const menu = element(
    "details",
    { class: "row-menu" },
    element("summary", { "aria-label": `More for ${title}`, title: "More" }, icon("more")),
    element(
      "div",
      { class: "menu" },
      button("Rename", () => rename(item, load), { class: "quiet" }),
      element("a", { class: "button quiet", href: api.exportAddress(item.id), download: "" }, "Export"),
      button("Delete", () => remove(item, load), { class: "quiet" }),
    ),
  );
  menu.querySelector(".menu").addEventListener("click", () => {
    menu.open = false;
  });
  menu.addEventListener("keydown", ({ key }) => {
    if (key !== "Escape" || !menu.open) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  menu.addEventListener("focusout", ({ relatedTarget }) => {
    if (!menu.contains(relatedTarget)) menu.open = false;
  });
  return element(
    "li",
    { class: "rail-row" },
    link(`/c/${item.id}`, () => { conversation.open(item.id); onOpen(); }, { dir: "auto", title, "aria-current": isCurrent && "page" }, title),
    menu,
  );
}

function rename(item, reload) {
  const title = element("input", { type: "text", maxlength: 200, required: true, dir: "auto", "aria-label": "Title" });
  title.value = item.title;
  openDialog({
    heading: "Rename the conversation", body: title, action: "Rename",
    async run() {
      await conversation.rename(item.id, title.value);
      await reload();
    },
  });
  title.select();
}

function remove(item, reload) {
  openDialog({
    heading: "Delete the conversation?",
    body: element("p", {}, "“", element("bdi", {}, item.title || "Untitled"), "” and its traces will be gone for good."),
    action: "Delete", danger: true,
    async run() {
      await conversation.remove(item.id);
      await reload();
    },
  });
}
