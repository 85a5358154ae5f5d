// Requests to the operators' interface. Each has a timeout; an error status raises an `ApiError`.

import { askWho, keyHeaders } from "./signin.js";

// This file lies at `…/ops/console/api.js`.
const BASE = new URL("../", import.meta.url);
const MOST_MILLISECONDS = 20_000;
const UNAUTHORIZED = 401;

// `faults` are the wrong fields, each with the reason.
export class ApiError extends Error {
  constructor(status, detail, faults = []) {
    super(detail);
    this.status = status;
    this.faults = faults;
  }
}

// There was no answer in time.
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

// Acts on a task, or on one `step`, in the epoch that the operator saw. `content` is a result or an event.
export function act({ id, epoch }, action, step, reason, content) {
  const task = `tasks/${encodeURIComponent(id)}`;
  const path = step === null ? `${task}/${action}` : action === "event" ? `${task}/events/${encodeURIComponent(step)}` : `${task}/steps/${encodeURIComponent(step)}/${action}`;
  return post(path, { reason, epoch, ...(content && { [action === "event" ? "body" : "result"]: content }) });
}

// `action` is `hold`, `end-hold` or `limit`; `more` has the limit, or the start of the hold.
export function actOnGate(gate, action, reason, more = {}) {
  return post(`gates/${encodeURIComponent(gate)}/${action}`, { reason, ...more });
}

export function counted(filter) {
  return ask(`count?${new URLSearchParams(filter)}`, {});
}

// Acts on the next tasks that a filter selects; the answer's `cursor` continues.
export function actOnSome(request) {
  return post("tasks/actions", request);
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

// Discards some messages of a queue (null: all queues) that were rejected `until` a time.
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
  if (!answer.ok) throw await errorOf(answer);
  return read(answer);
}

// A proxy or a sign-in may answer with a page.
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

async function errorOf(answer) {
  try {
    const { detail, title, errors = [] } = await answer.json();
    const faults = errors.map(({ field, reason }) => `${field}: ${reason}`);
    return new ApiError(answer.status, faults.join("; ") || detail || title, faults);
  } catch {
    return new ApiError(answer.status, answer.statusText || `HTTP ${answer.status}`);
  }
}
