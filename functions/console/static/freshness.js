// The age of the shown data, and the reason if it cannot be read.

import { ApiError, UnreachableError } from "./api.js";
import { el } from "./elements.js";
import { age, whole } from "./format.js";

const line = document.getElementById("freshness");
const announcement = document.getElementById("announcement");

// The content of a view before its first data.
export const unread = el("p", { class: "none" });

let updatedAt = null;
let failure = null;

export function loading() {
  updatedAt = null;
  failure = null;
  show();
}

export function updated() {
  if (failure !== null) announce("Reachable again.");
  updatedAt = Date.now();
  failure = null;
  show();
}

// The next attempt is after `pause` milliseconds.
export function failed(error, pause) {
  const what = described(error);
  if (failure === null) announce(`Not up to date: ${what}`);
  failure = { what, againAt: Date.now() + pause };
  show();
}

function described(error) {
  if (error instanceof ApiError) return `${error.status}: ${error.message}`;
  if (error instanceof UnreachableError) return error.message;
  reportError(error);
  return `this page has an error (${error.message})`;
}

// For screen readers.
export function announce(text) {
  announcement.textContent = text;
}

function show() {
  line.classList.toggle("stale", failure !== null);
  line.textContent = failure === null ? fresh() : stale();
  unread.textContent = failure !== null && updatedAt === null ? `No data yet: ${failure.what}` : "";
}

function fresh() {
  return updatedAt === null ? "loading" : `updated ${age(updatedAt)} ago`;
}

function stale() {
  const again = whole((failure.againAt - Date.now()) / 1000);
  const since = updatedAt === null ? "" : ` · as of ${age(updatedAt)} ago`;
  return `${failure.what}${since} · next try in ${again}`;
}

setInterval(show, 1_000);
