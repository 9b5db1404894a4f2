/** A dialog that asks for one thing, made when it is needed. */

import { element, setText } from "./dom.js";

/**
 * Open a dialog with `body` and a button for `action`; without one it can only be closed. `run()` does it: when that
 * fails, the dialog says why and stays.
 */
export function openDialog({ heading, body, action, danger = false, run }) {
  const problem = element("p", { class: "field-error", role: "alert" });
  const close = element("button", { type: "button", onclick: () => dialog.close() }, action ? "Cancel" : "Close");
  const form = element(
    "form",
    {
      method: "dialog",
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await run?.();
          dialog.close();
        } catch (error) {
          setText(problem, error.message);
        }
      },
    },
    element("h2", {}, heading), body, problem,
    element(
      "div", { class: "dialog-actions" },
      close, action && element("button", { type: "submit", class: danger ? "danger" : "primary" }, action),
    ),
  );
  const dialog = element("dialog", { "aria-label": heading, onclose: () => dialog.remove() }, form);
  document.body.append(dialog);
  dialog.showModal();
}
