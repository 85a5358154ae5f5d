// Says how old what is shown is, and why it is not newer.

import { ApiError, UnreachableError } from "./api.js";
import { el } from "./elements.js";
import { age, whole } from "./format.js";

const line = document.getElementById("freshness");
const announcement = document.getElementById("announcement");

// Stands in the place of a view of which nothing could be read yet.
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

// `pause` is in milliseconds: then it is tried again.
export function failed(error, pause) {
  const what = told(error);
  if (failure === null) announce(`Not up to date: ${what}`);
  failure = { what, againAt: Date.now() + pause };
  show();
}

function told(error) {
  if (error instanceof ApiError) return `${error.status}: ${error.message}`;
  if (error instanceof UnreachableError) return error.message;
  reportError(error);
  return `this page has a fault (${error.message})`;
}

// Tells people who listen rather than look; said once, not with every second that passes.
export function announce(text) {
  announcement.textContent = text;
}

function show() {
  line.classList.toggle("stale", failure !== null);
  line.textContent = failure === null ? fresh() : stale();
  unread.textContent = failure !== null && updatedAt === null ? `Nothing to show yet: ${failure.what}` : "";
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
