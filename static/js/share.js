/** Handing a trace on: a link that only reads, and the whole trace as a file. */

import * as api from "./api.js";
import { openDialog } from "./dialog.js";
import { button, element, setText } from "./dom.js";
import { sourceOf } from "./source.js";
import { writeTrace } from "./trace-file.js";

/** The dialog of one answer; `mayShare` is false for a reader who has only a link. */
export function openShare(record, { mayShare }) {
  openDialog({
    heading: mayShare ? "Share this trace" : "Keep this trace",
    body: element("div", { class: "handing" }, mayShare && linkPart(record), filePart(record)),
  });
}

function linkPart(record) {
  const address = element("input", { type: "text", readonly: true, "aria-label": "Link to this trace", hidden: true });
  const state = element("p", { class: "soft", role: "status" }, "Looking whether there is a link.");
  const action = (title, run, kind) => button(title, () => attempt(run), { class: kind });
  const make = action("Make a link", async () => show(await api.makeShare(record.id)), "primary");
  const copy = action("Copy the link", copyLink);
  const remove = action("Take the link back", async () => {
    await api.takeBackShare(record.id);
    show({ path: null });
  }, "danger");

  async function attempt(run) {
    try {
      await run();
    } catch (error) {
      setText(state, error.message);
    }
  }

  async function copyLink() {
    address.select();
    await navigator.clipboard.writeText(address.value).then(() => setText(state, "Copied."), () => setText(state, "Copy it from the field: this browser does not let the page do it."));
  }

  function show({ path }) {
    const isShared = path !== null;
    address.hidden = copy.hidden = remove.hidden = !isShared;
    make.hidden = isShared;
    address.value = isShared ? new URL(path, location.href).href : "";
    setText(state, isShared ? "Whoever has this link can read the trace until you take it back." : "There is no link yet.");
  }

  make.hidden = copy.hidden = remove.hidden = true;
  attempt(async () => show(await api.getShare(record.id)));
  return element(
    "section", {},
    element("p", {}, "A link shows this one answer with everything inside it, without your name. The prompt is part of it, with the instructions and earlier messages that the model read."),
    address, state, element("div", { class: "share-actions" }, make, copy, remove),
  );
}

function filePart(record) {
  const state = element("p", { class: "soft", role: "status" });
  async function save() {
    try {
      const text = await writeTrace(record, location.hash);
      const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
      element("a", { href: url, download: `trace-${record.id}.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
      setText(state, "Saved.");
    } catch (error) {
      setText(state, error.message);
    }
  }
  return element(
    "section", {},
    element("p", {}, "A file holds the same, and those pictures that you have opened. ", element("a", { href: "/open", target: "_blank", rel: "noopener" }, "This page"), " opens it again, without the service."),
    state, element("div", { class: "share-actions" }, button("Save as a file", save, { disabled: sourceOf(record).address === null })),
  );
}
