/** What a screen reader is told: that an answer is being made and how it ended, never its tokens. */

import { isActive } from "./record.js";
import { subscribe } from "./store.js";

const ENDS = {
  completed: "Answer complete.",
  incomplete: "Answer complete, cut short.",
  cancelled: "Answer stopped.",
  failed: "The request failed.",
  interrupted: "The answer was interrupted.",
};

export function mountAnnouncer(node) {
  let followed = null;
  subscribe(["response"], ({ response }) => {
    if (response !== null && isActive(response) && followed !== response) {
      followed = response;
      node.textContent = "Generating the answer.";
    } else if (followed !== null && followed === response && !isActive(response)) {
      followed = null;
      node.textContent = ENDS[response.status];
    }
  });
}
