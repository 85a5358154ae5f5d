// The operators' interface. Every request is bounded in time; what it refuses becomes an `ApiError`.

import { keyHeaders } from "./key.js";
import { askWho } from "./signin.js";

// This file lies at `…/ops/console/api.js`.
const BASE = new URL("../", import.meta.url);
const MOST_MILLISECONDS = 20_000;
const UNAUTHORIZED = 401;

// `faults` name the fields that are wrong, each with the reason.
export class ApiError extends Error {
  constructor(status, detail, faults = []) {
    super(detail);
    this.status = status;
    this.faults = faults;
  }
}

// Nobody answered, or not in time.
export class UnreachableError extends Error {}

// The caller's `name` and `roles`.
export function me() {
  return ask("me", {});
}

export function overview(signal) {
  return ask("overview", { signal });
}

export function tasks(query, signal) {
  return ask(`tasks?${new URLSearchParams(query)}`, { signal });
}

export function errors(query, signal) {
  return ask(`errors?${new URLSearchParams(query)}`, { signal });
}

export function task(id, signal) {
  return ask(`tasks/${encodeURIComponent(id)}`, { signal });
}

export function contents(id) {
  return ask(`tasks/${encodeURIComponent(id)}/contents`, {});
}

export function stepContents(id, step) {
  return ask(`tasks/${encodeURIComponent(id)}/steps/${encodeURIComponent(step)}/contents`, {});
}

// `action` is `resubmit`, `undo`, `cancel`, `park` or `unpark`. What is done to a task is refused when it is in
// another epoch than in the view of it that the operator saw.
export function act({ id, epoch }, action, reason, more = {}) {
  return post(`tasks/${encodeURIComponent(id)}/${action}`, { reason, epoch, ...more });
}

// A step whose outcome was unknown was done, and gave this result; or it was not done.
export function foundDone(task, step, reason, result) {
  return act(task, `steps/${encodeURIComponent(step)}/done`, reason, { result });
}

export function foundNotDone(task, step, reason) {
  return act(task, `steps/${encodeURIComponent(step)}/not-done`, reason);
}

// A step that failed is gone on after, as if it had given this result.
export function skip(task, step, reason, result) {
  return act(task, `steps/${encodeURIComponent(step)}/skip`, reason, { result });
}

export function tell(task, step, reason, body) {
  return act(task, `events/${encodeURIComponent(step)}`, reason, { body });
}

export function counted(filter) {
  return ask(`count?${new URLSearchParams(filter)}`, {});
}

// Acts on some of the tasks that a filter selects; the answer's `cursor` asks for the next.
export function actOnSome(wish) {
  return post("tasks/actions", wish);
}

export function rejected(query, signal) {
  return ask(`rejected?${new URLSearchParams(query)}`, { signal });
}

export function rejectedMessage(id, signal) {
  return ask(`rejected/${encodeURIComponent(id)}`, { signal });
}

export function resend(id, reason) {
  return post(`rejected/${encodeURIComponent(id)}/resend`, { reason });
}

export function discard(id, reason) {
  return post(`rejected/${encodeURIComponent(id)}/discard`, { reason });
}

// Those of a queue, or all (null), that were rejected until a time: some of them, and whether others are left.
export function discardAll(queue, until, reason) {
  return post("rejected/discard", { reason, queue, until });
}

function post(path, content) {
  return ask(path, {
    method: "POST",
    body: JSON.stringify(content),
    headers: { "Content-Type": "application/json", "X-Requested-With": "console" },
  });
}

async function ask(path, { signal, headers = {}, ...options }) {
  const limit = AbortSignal.timeout(MOST_MILLISECONDS);
  const request = fetch(new URL(path, BASE), {
    ...options,
    headers: { Accept: "application/json", ...headers, ...keyHeaders() },
    signal: signal ? AbortSignal.any([signal, limit]) : limit,
    cache: "no-store",
  });
  const answer = await reached(request);
  if (answer.status === UNAUTHORIZED) {
    await askWho(answer);
    return ask(path, { signal, headers, ...options });
  }
  if (!answer.ok) throw await refusal(answer);
  return read(answer);
}

// A page in the place of an answer, as from a sign-in in between, is no silence.
async function read(answer) {
  const text = await reached(answer.text());
  try {
    return JSON.parse(text);
  } catch {
    throw new ApiError(answer.status, "the answer is not JSON");
  }
}

async function reached(promise) {
  try {
    return await promise;
  } catch (cause) {
    throw new UnreachableError("not reachable", { cause });
  }
}

async function refusal(answer) {
  try {
    const { detail, title, errors = [] } = await answer.json();
    const faults = errors.map(({ field, reason }) => `${field}: ${reason}`);
    return new ApiError(answer.status, faults.join("; ") || detail || title, faults);
  } catch {
    return new ApiError(answer.status, answer.statusText || `HTTP ${answer.status}`);
  }
}
