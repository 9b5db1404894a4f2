/**
 * Views of a response: fetched, parsed and kept.
 *
 * A view travels as safetensors: eight bytes of header length (little endian), a JSON header that names each tensor
 * with type, shape and byte range, then the numbers. The structured part is JSON under `__metadata__.view`.
 */

const CAPACITY = 64; // views kept, least recently used out first
const RETRY_MS = 500; // before another try when the service names no time
const BUSY_TRIES = 20; // a minute: what takes so long is being made meanwhile, and is there when it is done
const TYPES = { F32: Float32Array, I32: Int32Array };

/** url → {address, slug, query, view, promise, controller, waiting}; a Map keeps insertion order, so its first key is the oldest. */
const kept = new Map();

/** Parse safetensors bytes into `{info, tensors: {name: {shape, data}}}`. */
export function parseView(buffer) {
  const length = Number(new DataView(buffer).getBigUint64(0, true));
  const { __metadata__: metadata, ...entries } = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = {};
  for (const [name, { dtype, shape, data_offsets: [from, to] }] of Object.entries(entries)) {
    if (!(dtype in TYPES)) throw new Error(`Tensor ${name} has type ${dtype}, which this page cannot read`);
    // A copy, because the numbers need not start at a multiple of their own size.
    tensors[name] = { shape, data: new TYPES[dtype](buffer.slice(8 + length + from, 8 + length + to)) };
  }
  return { info: JSON.parse(metadata.view), tensors };
}

/** One text for one view, whatever the order of its parameters. */
export function viewKey(slug, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query).sort(([a], [b]) => (a < b ? -1 : 1))) {
    if (value !== null && value !== undefined) parameters.set(name, String(value));
  }
  return `${slug}?${parameters}`;
}

/** What the page knows about a failure: the service's own words where it gave any. */
async function failure(reply) {
  const body = await reply.json().catch(() => ({}));
  const { code = `http_${reply.status}`, message = `The service answered ${reply.status}`, field = null } =
    body.error ?? {};
  return Object.assign(new Error(message), { code, field });
}

function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

async function load(url, signal) {
  for (let attempt = 0; ; attempt += 1) {
    const reply = await fetch(url, { signal, credentials: "same-origin" });
    if (reply.ok) return parseView(await reply.arrayBuffer());
    const problem = await failure(reply);
    const tries = reply.status !== 503 ? 0 : problem.code === "busy" ? BUSY_TRIES : 1;
    if (attempt >= tries) throw problem;
    const seconds = Number(reply.headers.get("Retry-After"));
    await pause(seconds > 0 ? seconds * 1000 : RETRY_MS, signal);
  }
}

/**
 * The view of one response, from the cache or the service. `address` is "responses/<id>" or "shared/<token>".
 *
 * Rejects with an Error that bears `code`, `message` and `field`, or with an AbortError when `signal` fires. A
 * request is given up only when everybody who waits for it has left.
 */
export function fetchView(address, slug, query = {}, { signal } = {}) {
  if (signal?.aborted) return Promise.reject(signal.reason);
  const url = `/api/v1/${address}/views/${viewKey(slug, query)}`;
  let entry = kept.get(url);
  if (entry) {
    kept.delete(url);
  } else {
    const controller = new AbortController();
    entry = { address, slug, query, controller, waiting: 0, view: null, promise: load(url, controller.signal) };
    entry.promise.then(
      (view) => (entry.view = view),
      () => kept.get(url) === entry && kept.delete(url),
    );
    if (kept.size >= CAPACITY) kept.delete(kept.keys().next().value);
  }
  kept.set(url, entry);
  if (!signal) {
    entry.waiting = Infinity;
    return entry.promise;
  }
  entry.waiting += 1;
  return new Promise((resolve, reject) => {
    entry.promise.then(resolve, reject);
    signal.addEventListener("abort", () => {
      reject(signal.reason);
      entry.waiting -= 1;
      if (entry.waiting > 0 || entry.view) return;
      if (kept.get(url) === entry) kept.delete(url);
      entry.controller.abort(signal.reason);
    });
  });
}

/** The views of one response that are here: [{slug, query, view}]. */
export function keptViews(address) {
  return [...kept.values()].filter((entry) => entry.address === address && entry.view !== null);
}
