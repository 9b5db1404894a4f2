/**
 * The WebSocket: opened, kept open, and honest about it. Frames that ask for an answer are kept until the service
 * has confirmed them and are sent again after a reconnect; their `event_id` makes that harmless.
 */

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;
/** Close codes after which trying again would only be told the same. */
const FINAL = new Map([
  [4401, "You are signed out."],
  [4403, "This connection is not allowed."],
]);

export class Socket {
  #address;
  #handlers;
  #socket = null;
  #attempts = 0;
  #timer = null;
  #unconfirmed = new Map(); // event_id -> frame

  /** `handlers`: `message(event)`, `state(name, reason)`, `open()` after every (re)connection. */
  constructor(address, handlers) {
    this.#address = address;
    this.#handlers = handlers;
    addEventListener("online", () => this.#retryNow());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#retryNow());
  }

  get isOpen() {
    return this.#socket?.readyState === WebSocket.OPEN;
  }

  connect() {
    clearTimeout(this.#timer);
    this.#timer = null;
    const socket = new WebSocket(this.#address);
    this.#socket = socket;
    socket.onopen = () => {
      this.#attempts = 0;
      this.#handlers.state("open", null);
      this.#handlers.open();
      for (const frame of this.#unconfirmed.values()) this.send(frame);
    };
    socket.onmessage = ({ data }) => this.#handlers.message(JSON.parse(data));
    socket.onclose = ({ code, reason }) => this.#closed(socket, code, reason);
  }

  /** Send if the connection is open. What must not be lost goes through `sendReliably`. */
  send(frame) {
    if (this.isOpen) this.#socket.send(JSON.stringify(frame));
  }

  /** Send now or as soon as possible, again after every reconnect, until `confirm(event_id)`. */
  sendReliably(frame) {
    this.#unconfirmed.set(frame.event_id, frame);
    this.send(frame);
  }

  confirm(eventId) {
    this.#unconfirmed.delete(eventId);
  }

  #closed(socket, code, reason) {
    if (socket !== this.#socket) return;
    if (FINAL.has(code)) {
      this.#handlers.state("closed", reason || FINAL.get(code));
      return;
    }
    this.#handlers.state("lost", reason || null);
    const wait = Math.min(FIRST_WAIT_MS * 2 ** this.#attempts, LONGEST_WAIT_MS);
    this.#attempts += 1;
    this.#timer = setTimeout(() => this.connect(), wait);
  }

  #retryNow() {
    if (this.#timer !== null) this.connect();
  }
}
