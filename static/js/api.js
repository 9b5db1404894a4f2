/** The HTTP side of the service. Every failure is an Error with `code`, `message`, `field`, `retryAfter` and `status`. */

function csrfToken() {
  return /(?:^|;\s*)csrftoken=([^;]*)/.exec(document.cookie)?.[1] ?? "";
}

async function call(method, path, { query = {}, body } = {}) {
  const parameters = new URLSearchParams(Object.entries(query).filter(([, value]) => value !== null && value !== ""));
  const address = `/api/v1/${path}${parameters.size > 0 ? `?${parameters}` : ""}`;
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = csrfToken();
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let reply;
  try {
    reply = await fetch(address, {
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw Object.assign(new Error("The service cannot be reached. Check the connection and try again."), {
      code: "unreachable", field: null, retryAfter: null, status: 0,
    });
  }
  if (!reply.ok) throw await failure(reply);
  return reply.status === 204 ? null : reply.json();
}

async function failure(reply) {
  const { error = {} } = await reply.json().catch(() => ({}));
  return Object.assign(new Error(error.message ?? `The service answered ${reply.status}.`), {
    code: error.code ?? `http_${reply.status}`,
    field: error.field ?? null,
    retryAfter: error.retry_after ?? null,
    status: reply.status,
  });
}

const id = encodeURIComponent;

/** The models that can be asked for, the one that answers `auto` first; none while no worker is ready. */
export async function getModels() {
  const reply = await fetch("/page/models", { credentials: "same-origin" });
  return reply.ok ? (await reply.json()).models : [];
}

export const getMe = () => call("GET", "me");
export const listConversations = (query) => call("GET", "conversations", { query });
export const getConversation = (conversation) => call("GET", `conversations/${id(conversation)}`);
export const renameConversation = (conversation, title) =>
  call("PATCH", `conversations/${id(conversation)}`, { body: { title } });
export const setInstructions = (conversation, instructions) =>
  call("PATCH", `conversations/${id(conversation)}`, { body: { instructions } });
export const deleteConversation = (conversation) => call("DELETE", `conversations/${id(conversation)}`);
export const exportAddress = (conversation) => `/api/v1/conversations/${id(conversation)}/export`;
export const listResponses = (query) => call("GET", "responses", { query });
export const getResponse = (response) => call("GET", `responses/${id(response)}`);
/** `address` is "responses/<id>" or "shared/<token>". */
export const getEvents = (address, epoch, after) => call("GET", `${address}/events`, { query: { epoch, after } });
export const getTrace = (address) => call("GET", `${address}/export`);
export const getShared = (token) => call("GET", `shared/${id(token)}`);
export const getShare = (response) => call("GET", `responses/${id(response)}/share`);
export const makeShare = (response) => call("PUT", `responses/${id(response)}/share`);
export const takeBackShare = (response) => call("DELETE", `responses/${id(response)}/share`);
export const putFeedback = (response, rating, comment) =>
  call("PUT", `responses/${id(response)}/feedback`, { body: { rating, comment } });
