/**
 * One response as this browser knows it: the state that its numbered events add up to. No DOM, no network.
 *
 * Events count in the order of (`epoch`, `sequence_number`). One that has been seen is ignored, one that comes after a
 * hole waits in `ahead` until the hole is filled from the log.
 */

const ENDS = {
  "response.completed": "completed",
  "response.incomplete": "incomplete",
  "response.cancelled": "cancelled",
  "response.failed": "failed",
  "response.interrupted": "interrupted",
};
const PART_OF_A_CHARACTER = /\\x[0-9a-f]{2}/i;

export function createRecord(fields = {}) {
  return {
    id: null,
    source: null, // where its trace is read from (source.js); null: the service, by its id
    eventId: null,
    conversationKey: null,
    messageId: null,
    answerId: null,
    status: "sending",
    cancelling: false,
    isReplay: false, // it had ended when this browser met it: text and status are known, the log adds the journey
    queuePosition: null,
    finishReason: null,
    error: null,
    text: "",
    html: null,
    usage: null,
    sampling: null,
    model: null,
    fingerprint: null,
    feedback: null,
    stages: new Map(), // slug -> trace.stage
    steps: [], // trace.step, dense: steps[i].step is i
    tokens: [], // {position, id, text, kind, source}: pieces of the prompt, then generated ones
    numPromptTokens: 0,
    arrivals: [], // ms from Send to each text event, by this browser's own clock; empty for a replay
    sentAt: null,
    endedAt: null,
    epoch: 0,
    last: 0,
    breakpoints: null, // those it has, as far as this tab knows
    held: null, // {stage, step, releasesAt, asked} while it stands at a breakpoint; asked: event_id of the wish to go on
    heldMs: 0, // how long it has been held so far: no part of any latency
    ahead: [],
    aheadSteps: new Map(), // steps after one that a slow socket was not sent
    dropped: [], // {epoch, first, last}: trace events still to be read from the log
    version: 0, // grows with every change
    ...fields,
  };
}

export function isActive(record) {
  return record.status === "sending" || record.status === "queued" || record.status === "in_progress";
}

/**
 * Take one event. Returns false when one before it is missing. The log has no holes, so what it says about the next
 * event is trusted (`fromLog`): only there may a new epoch begin with another number than 1.
 */
export function accept(record, event, { fromLog = false } = {}) {
  if (event.type === "trace.dropped") return acceptDropped(record, event);
  if (isOld(record, event)) {
    if (fromLog && event.type.startsWith("trace.") && wasDropped(record, event)) apply(record, event);
    return true;
  }
  if (!fromLog && !follows(record, event)) {
    record.ahead.push(event);
    return false;
  }
  apply(record, event);
  record.epoch = event.epoch;
  record.last = event.sequence_number;
  return drain(record);
}

function isOld(record, { epoch, sequence_number: number }) {
  return epoch < record.epoch || (epoch === record.epoch && number <= record.last);
}

function follows(record, { epoch, sequence_number: number }) {
  return epoch === record.epoch ? number === record.last + 1 : number === 1;
}

function wasDropped(record, { epoch, sequence_number: number }) {
  return record.dropped.some((range) => range.epoch === epoch && range.first <= number && number <= range.last);
}

/** A slow socket was spared trace events `first` to `last`: no loss of text, and the log has them. */
function acceptDropped(record, { epoch, first, last }) {
  if (epoch < record.epoch || (epoch === record.epoch && last <= record.last)) return true;
  if (epoch !== record.epoch ? first !== 1 : first > record.last + 1) return false;
  record.dropped.push({ epoch, first, last });
  record.epoch = epoch;
  record.last = last;
  return drain(record);
}

/** Apply what was waiting and now follows. Returns whether nothing waits any more. */
function drain(record) {
  if (record.ahead.length === 0) return true;
  record.ahead.sort((a, b) => a.epoch - b.epoch || a.sequence_number - b.sequence_number);
  while (record.ahead.length > 0) {
    const [event] = record.ahead;
    if (!isOld(record, event) && !follows(record, event)) return false;
    record.ahead.shift();
    if (isOld(record, event)) continue;
    apply(record, event);
    record.epoch = event.epoch;
    record.last = event.sequence_number;
  }
  return true;
}

function apply(record, event) {
  record.version += 1;
  if (event.type in ENDS) applyEnd(record, event);
  else {
    if (event.epoch > record.epoch && record.epoch > 0) restart(record);
    APPLY[event.type]?.(record, event);
  }
}

const APPLY = {
  "response.created"(record, event) {
    record.id = event.response_id;
    record.messageId = event.message_id;
    record.answerId = event.answer_id;
    record.sampling = event.sampling;
    record.model = event.model;
    if (record.status === "sending") record.status = "queued";
  },
  "response.queued"(record, event) {
    if (record.isReplay) return;
    record.status = "queued";
    record.queuePosition = event.position;
  },
  "response.in_progress"(record, event) {
    if (!record.isReplay) record.status = "in_progress";
    record.model = event.model;
    record.fingerprint = event.fingerprint;
    record.sampling = event.sampling;
  },
  "response.output_text.delta"(record, event) {
    if (record.isReplay || record.cancelling) return; // Stop stops at once; the end says what the answer is
    record.text += event.delta;
    if (record.sentAt !== null) record.arrivals.push(performance.now() - record.sentAt - record.heldMs);
  },
  "response.output_text.retracted"(record, event) {
    if (!record.isReplay) record.text = withoutLast(record.text, event.characters);
  },
  "response.held"(record, { stage, step, releases_after_s: seconds }) {
    if (!record.isReplay) record.held = { stage, step, releasesAt: performance.now() + seconds * 1000, asked: null };
  },
  "response.continued"(record, event) {
    record.held = null;
    record.heldMs += event.held_ms;
  },
  "trace.stage"(record, event) {
    record.stages.set(event.stage, event);
    if (event.stage === "tokens") readPrompt(record, event.data);
  },
  "trace.step"(record, event) {
    record.aheadSteps.set(event.step, event);
    takeSteps(record);
  },
};

/** Another worker begins anew: what an earlier attempt had made does not count. */
function restart(record) {
  if (!record.isReplay) record.text = "";
  record.held = null;
  for (const [slug, event] of record.stages) if (event.epoch > 0) record.stages.delete(slug);
  forgetStepsFrom(record, 0);
}

function readPrompt(record, report) {
  const pieces = report.pieces.map(([position, id, text, kind, source]) => ({ position, id, text, kind, source }));
  record.numPromptTokens = report.num_tokens;
  record.tokens = [...pieces, ...record.steps.map((event) => generated(record, event))];
}

function generated(record, event) {
  return {
    position: record.numPromptTokens + event.step,
    id: event.token,
    text: event.token_text,
    kind: PART_OF_A_CHARACTER.test(event.token_text) ? "byte piece" : "generated",
    source: "answer",
  };
}

function takeSteps(record) {
  for (;;) {
    const event = record.aheadSteps.get(record.steps.length);
    if (event === undefined) return;
    record.aheadSteps.delete(event.step);
    record.steps.push(event);
    record.tokens.push(generated(record, event));
  }
}

function forgetStepsFrom(record, length) {
  record.aheadSteps.clear();
  record.tokens.length -= record.steps.length - length;
  record.steps.length = length;
}

function applyEnd(record, event) {
  if (event.type === "response.interrupted") cutBack(record, event.epoch - 1, event.last_sequence_number);
  record.status = ENDS[event.type];
  record.held = null;
  record.finishReason = event.finish_reason;
  record.text = event.text; // the whole released answer, whatever was lost on the way
  record.usage = event.usage;
  record.error = event.error ?? null;
  record.endedAt = performance.now();
}

/** Events of `epoch` after `last` are void: their worker was lost before they counted. */
function cutBack(record, epoch, last) {
  const isVoid = (event) => event.epoch === epoch && event.sequence_number > last;
  for (const [slug, event] of record.stages) if (isVoid(event)) record.stages.delete(slug);
  const length = record.steps.findIndex(isVoid);
  if (length !== -1) forgetStepsFrom(record, length);
}

/** Take `characters` code points off the end. */
function withoutLast(text, characters) {
  let end = text.length;
  for (let left = characters; left > 0 && end > 0; left -= 1) {
    const low = text.charCodeAt(end - 1);
    end -= low >= 0xdc00 && low <= 0xdfff && end > 1 ? 2 : 1;
  }
  return text.slice(0, end);
}
