/** The pages beside the stages: a row of links, and the open page's module (pages/<name>.js), loaded when first opened. */

import { contextOf, followState } from "./context.js";
import { element, mark } from "./dom.js";
import { selectionLink } from "./links.js";
import { get } from "./store.js";

/** By page: its name in the row of links, which has to fit on one line, and its heading. */
const TITLES = {
  reading: ["Read", "Read it through"], table: ["Table", "Debugging table"], embeddings: ["Embeddings", "Three things called embedding"],
  meaning: ["Same word", "Same word, other meaning"], training: ["Training", "Where the weights came from"],
  misconceptions: ["Misconceptions", "Misconceptions, tested on this request"], compare: ["Compare", "Two answers compared"], numbers: ["Numbers", "Worked numbers"],
};

/** `again(record, seed)` asks for another version, `ask(text)` for one token after a text; null where one can only read. */
export function mountPages(host, catalogue, { again, ask }) {
  const links = new Map([[null, ["Stages"]], ...Object.entries(TITLES)].map(([page, [name]]) => [page, selectionLink({ page }, {}, name)]));
  const panel = element("div", { class: "page-panel", hidden: true });
  host.prepend(element("nav", { class: "page-links", "aria-label": "Stages and pages" }, [...links.values()]));
  host.append(panel);
  let open = null; // {page, body, life, update}

  followState(() => {
    const state = get();
    const { page } = state.selection;
    for (const [name, node] of links) mark(node, "aria-current", name === page && "page");
    panel.hidden = page === null;
    if (open?.page !== page || open.response !== state.response) {
      open?.life?.destroy?.();
      panel.replaceChildren();
      open = page === null ? null : begin(page, state.response);
    }
    if (page !== null) open.update(contextOf(state, own(state)));
  });

  /**
   * What pages read beside what stages do: `answers` are all of the conversation, `with` names one to compare with,
   * and `chosenStep` is null where the reader has chosen none.
   */
  function own({ messages, selection }) {
    const answers = messages.filter(({ record }) => record).map(({ record, parent_id: parent }) => ({ record, parent }));
    return { catalogue, again, ask, answers, with: selection.with, chosenStep: selection.step };
  }

  function begin(page, response) {
    const body = element("div", { class: "page-body" });
    panel.append(element(
      "article", { class: "page stage-picture", id: `page-${page}`, "aria-labelledby": "page-title" },
      element("h2", { id: "page-title" }, TITLES[page][1]), body,
    ));
    let latest = null;
    const opened = { page, response, life: null, update(context) {
      latest = context;
      opened.life?.update?.(context);
    } };
    import(`./pages/${page}.js`).then(
      ({ draw }) => {
        if (open === opened) opened.life = draw(body, latest);
      },
      (error) => {
        reportError(error);
        body.replaceChildren(element("p", { class: "notice alarm" }, "This page could not be loaded. Reload to try again."));
      },
    );
    return opened;
  }
}
