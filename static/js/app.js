/** Starts the page: reads what the service put into it, connects, and mounts the parts. */

import { mountAnnouncer } from "./announcer.js";
import * as api from "./api.js";
import { mountChat, welcome } from "./chat.js";
import { mountComposer } from "./composer.js";
import { mountConversationList } from "./conversation-list.js";
import * as conversation from "./conversation.js";
import { mountHold } from "./hold.js";
import { mountJourneyMap } from "./journey-map.js";
import * as responses from "./responses.js";
import { page } from "./page-data.js";
import { mountPages } from "./pages.js";
import { createReadingChoices } from "./reading-choices.js";
import { mountScrubber } from "./scrubber.js";
import { fromHash } from "./selection.js";
import { Socket } from "./socket.js";
import { mountStagePanel } from "./stage-panel.js";
import { get, set, subscribe } from "./store.js";
import { mountPaneTabs, mountTopbar } from "./topbar.js";

const MODEL_WAIT_MS = 2000;

const at = (id) => document.getElementById(id);
const titles = new Map(page.stages.map(({ slug, title }) => [slug, title]));

set({
  me: page.me,
  titles,
  models: page.models,
  model: page.models[0] ?? null,
  breakpoints: [],
  conversation: conversation.fresh({ id: page.conversation_id, state: page.conversation_id === null ? "ready" : "loading" }),
  selection: fromHash(location.hash, titles),
});

const panes = mountPaneTabs(at("pane-tabs"), at("app"));
const topbar = mountTopbar(at("topbar"), at("app"));
const list = mountConversationList(at("rail"), {
  onOpen() {
    topbar.closeRail();
    panes.show("answer");
  },
  onNew() {
    if (matchMedia("(pointer: fine)").matches) composer.focus(); // elsewhere a keyboard would cover the examples
  },
});
const composer = mountComposer(at("chat"), { samplingDefaults: page.sampling_defaults, maxTokens: page.me.max_tokens });
mountChat(at("chat"), { empty: welcome(composer.send), actions: { options: composer.options } });
mountJourneyMap(at("journey"), page.stages, { onSelect: () => panes.show("inside") });
mountHold(at("journey"));
mountScrubber(at("trace"), createReadingChoices(at("trace"), page.stages));
mountPages(at("trace"), page.stages, {
  ask: (input) => conversation.askAside(input, { ...page.sampling_defaults, max_tokens: 1 }),
  again(record, seed) {
    const { sampling, instructions } = composer.options();
    conversation.answerAgain(record, { model: record.model ?? "auto", sampling: { ...(record.sampling ?? sampling), seed }, instructions });
  },
});
mountStagePanel(at("trace").appendChild(document.createElement("div")), page.stages);
mountAnnouncer(at("announcer"));

const socket = new Socket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/v1/`, {
  message(event) {
    if (event.type !== "error") responses.receive(event);
    else if (!responses.reject(event)) set({ socketError: event });
  },
  state: (connection, reason) => set({ connection, connectionReason: reason }),
  open: responses.resumeAll,
});

async function refreshMe() {
  try {
    const me = await api.getMe();
    set({ me });
  } catch {
    // the number of answers left is not known just now
  }
}

/** A page opened while engines are still loading learns of their models when they are there. */
async function awaitModels() {
  while (get().models.length < page.num_models) {
    await new Promise((resolve) => setTimeout(resolve, MODEL_WAIT_MS));
    const models = await api.getModels().catch(() => []);
    if (models.length === get().models.length) continue;
    set({ models, model: responses.modelOf(get().response, models) });
  }
}

responses.start(socket, {
  created(record, event) {
    conversation.created(record, event);
    list.reload();
  },
  ended(record) {
    conversation.ended(record);
    refreshMe();
  },
});
conversation.start(list.reload);
subscribe(["conversation"], ({ conversation: { title } }) => {
  document.title = title ? `${title} · Webtrace` : "Webtrace";
});
socket.connect();
awaitModels();
if (page.conversation_id !== null) conversation.open(page.conversation_id, { keepAddress: true });

addEventListener("popstate", () => {
  const id = /^\/c\/([\w-]+)/.exec(location.pathname)?.[1] ?? null;
  set({ selection: fromHash(location.hash, titles) });
  if (id === get().conversation.id) conversation.follow();
  else if (id === null) conversation.startNew();
  else conversation.open(id, { keepAddress: true });
});
