/** Starts the page for somebody who only reads: one trace behind a share link, or in a file that they open. */

import * as api from "./api.js";
import { mountChat } from "./chat.js";
import * as conversation from "./conversation.js";
import { element, setText } from "./dom.js";
import { mountJourneyMap } from "./journey-map.js";
import { loadPlotly } from "./plotly.js";
import { page } from "./page-data.js";
import { mountPages } from "./pages.js";
import { createRecord } from "./record.js";
import { createReadingChoices } from "./reading-choices.js";
import { mountScrubber } from "./scrubber.js";
import { fromHash, PAGES } from "./selection.js";
import { remote } from "./source.js";
import { mountStagePanel } from "./stage-panel.js";
import { set } from "./store.js";
import { mountPaneTabs, themeButton } from "./topbar.js";
import { readTrace } from "./trace-file.js";

const LARGEST_FILE = 256e6;

const at = (id) => document.getElementById(id);
const slugs = new Set(page.stages.map(({ slug }) => slug));
const { token } = page.reader;

set({ conversation: conversation.fresh({ state: "ready" }), selection: fromHash(location.hash, slugs) });

const problem = element("p", { class: "notice alarm", role: "alert", hidden: true });
const panes = mountPaneTabs(at("pane-tabs"), at("app"));
at("topbar").append(
  element("span", { class: "soft" }, token === null ? "A trace from a file" : "A shared trace: read-only"),
  element("span", { class: "topbar-space" }), themeButton(), element("a", { href: "/" }, "Ask for yourself"),
);
mountChat(at("chat"), { empty: element("section", { class: "welcome" }, token === null ? opening() : null, problem), actions: null });
mountJourneyMap(at("journey"), page.stages, { onSelect: () => panes.show("inside") });
mountScrubber(at("trace"), createReadingChoices(at("trace"), page.stages));
mountPages(at("trace"), page.stages, { again: null });
mountStagePanel(at("trace").appendChild(document.createElement("div")), page.stages);
addEventListener("popstate", () => set({ selection: fromHash(location.hash, slugs) }));

if (token === null) loadEverything();
else attempt(openShared);

/** Show what `open()` gives, or say why there is nothing. */
async function attempt(open) {
  problem.hidden = true;
  try {
    show(await open());
  } catch (error) {
    problem.hidden = false;
    setText(problem, error.message);
  }
}

async function openShared() {
  const { response, html, model } = await api.getShared(token);
  const record = createRecord({
    id: response.id, status: response.status, finishReason: response.finish_reason, text: response.text, html,
    sampling: response.sampling, isReplay: true, source: remote(`shared/${token}`),
  });
  return { record, prompt: response.prompt, model };
}

function show({ record, prompt, model, fragment }) {
  const user = { id: "prompt", parent_id: null, role: "user", content: prompt, record: null };
  const answer = { id: "answer", parent_id: user.id, role: "assistant", content: record.text, record };
  if (fragment) history.replaceState(null, "", location.pathname + fragment.replace(/^(?!#)/, "#"));
  set({ models: [model].filter(Boolean), messages: [user, answer], selection: fromHash(location.hash, slugs) });
  conversation.follow();
}

// ------------------------------------------------------------------------------------------------ from a file

function opening() {
  const input = element("input", {
    type: "file", id: "trace-file", accept: ".json,application/json",
    async onchange() {
      const [file] = input.files;
      if (file) await attempt(() => openFile(file));
      input.value = ""; // the same file, mended, counts as another choice
    },
  });
  return [
    element("h1", {}, "Open a trace file"),
    element("p", {}, "A trace that was saved from an answer opens here with everything it holds. Nothing leaves your browser, and it works without a connection."),
    element("label", { for: "trace-file" }, "Trace file"), input,
  ];
}

async function openFile(file) {
  if (file.size > LARGEST_FILE) throw new Error(`The file has ${file.size} bytes; this page reads at most ${LARGEST_FILE}.`);
  return readTrace(await file.text());
}

/** What is otherwise loaded when it is first needed, so that the connection may go. */
function loadEverything() {
  const modules = [...[...slugs].map((slug) => `./stages/${slug}.js`), ...PAGES.map((name) => `./pages/${name}.js`)];
  Promise.all([loadPlotly(), ...modules.map((name) => import(name))]).then(
    () => at("app").setAttribute("data-complete", ""),
    reportError,
  );
}
