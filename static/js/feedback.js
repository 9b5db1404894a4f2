/** Thumbs up or down for an answer, with a comment for whoever runs the service. */

import { putFeedback } from "./api.js";
import { element, form, setText } from "./dom.js";
import { iconButton } from "./icons.js";

export function createFeedback(record) {
  const good = iconButton("good", "Good answer", { "aria-pressed": "false", onclick: () => rate(1) });
  const bad = iconButton("bad", "Bad answer", { "aria-pressed": "false", onclick: () => rate(-1) });
  const comment = element("input", { type: "text", maxlength: 2000, "aria-label": "Comment", placeholder: "What was good or bad about it? (optional)" });
  const state = element("span", { role: "status", class: "soft" });
  const node = form(
    () => save(chosen), { class: "feedback", hidden: true },
    comment, element("button", { type: "submit" }, "Send comment"), state,
  );

  let chosen = null; // the rating that a comment goes with, whether or not it could be saved yet
  let isFilled = false; // with the comment that was given earlier

  /** The same thumb again takes the rating back. */
  function rate(rating) {
    const isSame = record.feedback?.rating === rating;
    node.hidden = isSame;
    chosen = isSame ? null : rating;
    isFilled = true;
    if (isSame) comment.value = "";
    save(chosen);
  }

  async function save(rating) {
    try {
      await putFeedback(record.id, rating, rating === null ? "" : comment.value);
      record.feedback = rating === null ? null : { rating, comment: comment.value };
      setText(state, rating === null ? "" : "Saved");
    } catch (error) {
      setText(state, error.message);
    }
    refresh();
  }

  function refresh() {
    const rating = record.feedback?.rating ?? null;
    good.setAttribute("aria-pressed", String(rating === 1));
    bad.setAttribute("aria-pressed", String(rating === -1));
    if (record.feedback?.comment && !isFilled) {
      isFilled = true;
      node.hidden = false;
      chosen = rating;
      comment.value = record.feedback.comment;
    }
    good.disabled = bad.disabled = record.id === null;
  }
  return { node, buttons: element("span", { class: "thumbs" }, good, bad), refresh };
}
