/** Choosing one of the reader's own answers, of whatever conversation: a fold with a search and what it finds. */

import { listResponses } from "./api.js";
import { element, setText } from "./dom.js";

const SEARCH_WAIT_MS = 250;
const FOUND = 20;
const WORDS = 80; // characters of a prompt and an answer

/** `choose(id)` is told of the chosen answer. Nothing is asked for before the fold is opened. */
export function createAnswerPicker(summary, choose) {
  const search = element("input", { type: "search", placeholder: "Search", "aria-label": "Search your answers", dir: "auto" });
  const state = element("p", { class: "soft", role: "status" });
  const list = element("ul", { class: "answer-choices" });
  const node = element("details", { class: "fold answer-picker" }, element("summary", {}, summary), search, state, list);
  let timer = null;
  node.addEventListener("toggle", () => node.open && load());
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(load, SEARCH_WAIT_MS);
  });

  async function load() {
    const query = search.value.trim();
    try {
      const { responses, more } = await listResponses({ search: query, limit: FOUND });
      if (query !== search.value.trim()) return; // an answer to an older question
      list.replaceChildren(...responses.map(row));
      if (responses.length === 0) setText(state, query ? `No answer of yours has “${query}” in it, its prompt or its conversation's title.` : "You have no answers yet.");
      else setText(state, more ? `The newest ${FOUND}: search for older ones.` : "");
    } catch (error) {
      setText(state, error.message);
    }
  }

  function row({ id, title, prompt, text, created_at: created }) {
    return element("li", {}, element(
      "button", { type: "button", onclick: () => { node.open = false; choose(id); } },
      element("span", { class: "soft" }, element("bdi", {}, title || "Untitled"), ` · ${new Date(created).toLocaleString()}`),
      element("span", {}, element("bdi", {}, words(prompt)), " → ", element("bdi", {}, words(text) || "(no text)")),
    ));
  }
  return node;
}

function words(text) {
  return text.length > WORDS ? `${text.slice(0, WORDS).trimEnd()}…` : text;
}
