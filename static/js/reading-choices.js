/** How the trace is read: dense (tables and charts alone), and the stages of one subject only. */

import { element } from "./dom.js";
import { select } from "./selection.js";
import { read, write } from "./stored.js";

/** A switch, remembered, and a list: a subject opens its first stage and leaves the other stations unmarked. */
export function createReadingChoices(host, catalogue) {
  const dense = element("input", { type: "checkbox", onchange: () => showDense(dense.checked) });
  function showDense(isDense) {
    dense.checked = isDense;
    host.toggleAttribute("data-dense", isDense);
    write("dense", String(isDense));
  }
  showDense(read("dense") === "true");

  const subjects = [...new Set(catalogue.map(({ subject }) => subject))];
  const subject = element(
    "select", { "aria-label": "Stages of which subject", onchange: () => showSubject(subject.value) },
    element("option", { value: "" }, "all subjects"), subjects.map((name) => element("option", { value: name }, name)),
  );
  function showSubject(chosen) {
    if (chosen !== "") select({ stage: catalogue.find((stage) => stage.subject === chosen).slug });
    for (const stage of catalogue) {
      document.querySelector(`.station[data-slug="${stage.slug}"]`).toggleAttribute("data-other", chosen !== "" && stage.subject !== chosen);
    }
  }
  return element("span", { class: "reading-choices" }, element("label", { title: "Tables and charts without their explanations" }, dense, " data only"), subject);
}
