/** A dialog that asks for one thing, made when it is needed. */

import { button, element, form, setText } from "./dom.js";

/**
 * Open a dialog with `body` and a button for `action`; without one it can only be closed. `run()` does it: when that
 * fails, the dialog says why and stays.
 */
export function openDialog({ heading, body, action, danger = false, run }) {
  const problem = element("p", { class: "field-error", role: "alert" });
  const act = async () => {
    try {
      await run?.();
      dialog.close();
    } catch (error) {
      setText(problem, error.message);
    }
  };
  const dialog = element("dialog", { "aria-label": heading, onclose: () => dialog.remove() }, form(
    act, {},
    element("h2", {}, heading), body, problem,
    element(
      "div", { class: "dialog-actions" },
      button(action ? "Cancel" : "Close", () => dialog.close()),
      action && element("button", { type: "submit", class: danger ? "danger" : "primary" }, action),
    ),
  ));
  document.body.append(dialog);
  dialog.showModal();
}
