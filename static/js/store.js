/**
 * The one store of the page. Changes are gathered and handed out once an animation frame, so a hundred tokens a
 * second cost as many redraws as the screen can show.
 *
 * Lists that grow with the answer (`steps`, `tokens`) are appended to in place: setting the same list again says
 * "its contents have changed".
 */

const state = {
  connection: "connecting", // connecting | open | lost | closed
  me: null,
  models: [], // those that can be asked for, the one that `auto` stands for first
  model: null, // that of the response in view, else the first
  stages: new Map(), // slug -> trace.stage event of the response in view
  steps: [], // trace.step events of the response in view
  attention: null, // the newest trace.attention event
  response: null, // the record (records.js) of the response in view
  conversations: { items: [], next: null, search: "", state: "loading" },
  conversation: null, // { key, id, title, instructions, state }
  messages: [],
  titles: new Map(), // slug -> title of a stage, in order
  breakpoints: null, // where the next request is to be held; null where none can be sent
  selection: { page: null, stage: "request", step: null, layer: null, head: null, position: null },
};

const subscriptions = new Set();
let changed = new Set();
let scheduled = false;

export function get() {
  return state;
}

/** Change the state. Setting a key always counts as a change of it. */
export function set(changes) {
  for (const [key, value] of Object.entries(changes)) {
    state[key] = value;
    changed.add(key);
  }
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(flush);
}

/** Call `callback(state, changedKeys)` in the frame after any of `keys` was set. Returns the way out. */
export function subscribe(keys, callback) {
  const subscription = { keys: new Set(keys), callback };
  subscriptions.add(subscription);
  return () => subscriptions.delete(subscription);
}

function flush() {
  const keys = changed;
  changed = new Set();
  scheduled = false;
  for (const { keys: wanted, callback } of [...subscriptions]) {
    if (![...keys].some((key) => wanted.has(key))) continue;
    try {
      callback(state, keys);
    } catch (error) {
      reportError(error); // one part that fails must not stop the others
    }
  }
}
