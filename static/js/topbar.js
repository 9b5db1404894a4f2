/** The bar above everything: connection, limit, account, theme; and, on a narrow screen, the two panes' tabs. */

import { button, element, setText } from "./dom.js";
import { count, wait } from "./format.js";
import { iconButton } from "./icons.js";
import { accountLink } from "./links.js";
import { subscribe } from "./store.js";
import { forget, write } from "./stored.js";

const CONNECTIONS = {
  connecting: "Connecting",
  open: "Connected",
  lost: "Connection lost: trying again",
  closed: "Disconnected",
};
const THEMES = ["system", "light", "dark"];

export function mountTopbar(host, app) {
  const menu = iconButton("menu", "Conversations", {
    class: "rail-toggle", "aria-expanded": "false", "aria-controls": "rail", onclick: () => setRail(app.dataset.rail !== "open"),
  });
  const model = element("span", { class: "soft topbar-model" });
  const connection = element("span", { class: "connection", role: "status" });
  const limit = element("span", { class: "soft topbar-limit" });
  const account = element("span", { class: "topbar-account" });
  host.prepend(menu);
  host.append(model, element("span", { class: "topbar-space" }), connection, limit, themeButton(), account);

  function setRail(isOpen) {
    app.dataset.rail = isOpen ? "open" : "closed";
    menu.setAttribute("aria-expanded", String(isOpen));
  }
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || app.dataset.rail !== "open") return;
    event.preventDefault();
    setRail(false);
    menu.focus();
  }, { capture: true });

  document.addEventListener("pointerdown", ({ target }) => {
    if (app.dataset.rail === "open" && target.closest(".rail, .rail-toggle, dialog") === null) setRail(false);
  });

  subscribe(["connection"], ({ connection: state, connectionReason: reason }) => {
    connection.dataset.state = state;
    setText(connection, state === "closed" && reason ? reason : CONNECTIONS[state]);
  });
  subscribe(["model"], ({ model: loaded }) => setText(model, loaded ? `${loaded.name} · ${loaded.kernel}` : "Waiting for a model to be loaded"));
  subscribe(["me"], ({ me }) => {
    setText(limit, limitWords(me.limit));
    account.replaceChildren(...accountLinks(me));
  });
  return { closeRail: () => setRail(false) };
}

function limitWords(limit) {
  if (!limit) return "";
  if (limit.remaining > 0) return `${count(limit.remaining)} of ${count(limit.limit)} answers left`;
  return `No answers left: more in ${wait(limit.resets_in_s)}`;
}

function accountLinks(me) {
  if (!me.signed_in) {
    return [accountLink("login", "Log in"), " ", accountLink("signup", "Sign up")];
  }
  return [element("a", { href: "/accounts/keys/" }, me.username)];
}

export function themeButton() {
  const button = iconButton("theme", "", { onclick: () => choose(THEMES[(THEMES.indexOf(current()) + 1) % THEMES.length]) });
  const current = () => document.documentElement.dataset.theme ?? "system";
  function choose(theme) {
    if (theme === "system") {
      delete document.documentElement.dataset.theme;
      forget("theme");
    } else {
      document.documentElement.dataset.theme = theme;
      write("theme", theme);
    }
    name();
  }
  function name() {
    button.title = `Theme: ${current()}`;
    button.setAttribute("aria-label", button.title);
  }
  name();
  return button;
}

/** Below 760 px one of the two panes is shown at a time. */
export function mountPaneTabs(host, app) {
  const names = { answer: "Answer", inside: "Inside" };
  const controls = { answer: "chat", inside: "trace" };
  const tabs = new Map(
    Object.entries(names).map(([pane, name]) => [
      pane,
      button(name, () => show(pane), { role: "tab", id: `tab-${pane}`, "aria-controls": controls[pane] }),
    ]),
  );
  host.append(...tabs.values());
  host.addEventListener("keydown", ({ key }) => {
    if (key !== "ArrowLeft" && key !== "ArrowRight") return;
    const other = app.dataset.pane === "answer" ? "inside" : "answer";
    show(other);
    tabs.get(other).focus();
  });

  function show(pane) {
    app.dataset.pane = pane;
    for (const [name, tab] of tabs) {
      tab.setAttribute("aria-selected", String(name === pane));
      tab.tabIndex = name === pane ? 0 : -1;
    }
  }
  show("answer");
  return { show };
}
