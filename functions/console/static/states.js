// States of tasks and steps: each has a word, an icon and a tone, so that colour is never the only sign.

import { el, svg } from "./elements.js";

const ICONS = {
  check: "M3 8.5 6.5 12 13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  ring: "M8 3.5a4.5 4.5 0 1 0 .01 0",
  run: "M5 3.5v9l7.5-4.5z",
  back: "M6.5 3 3 6.5 6.5 10M3.5 6.5H10a3 3 0 0 1 0 6H7",
  dash: "M4 8h8",
  pause: "M5.5 4v8M10.5 4v8",
  dots: "M3 8h.01M8 8h.01M13 8h.01",
};

const LOOKS = {
  Pending: ["ring", "calm"],
  Processing: ["run", "active"],
  Processed: ["check", "good"],
  Error: ["cross", "bad"],
  Compensated: ["back", "undone"],
  Parked: ["pause", "late"],
  NotStarted: ["ring", "calm"],
  Running: ["run", "active"],
  Completed: ["check", "good"],
  Failed: ["cross", "bad"],
  Unrecorded: ["check", "bad"],
  Skipped: ["dash", "calm"],
  Undoing: ["dots", "undone"],
  Undone: ["back", "undone"],
  closed: ["check", "good"],
  open: ["pause", "bad"],
  "half-open": ["dots", "late"],
};

const WORDS = { NotStarted: "Not started", Unrecorded: "Done, no result" };

export function tone(state) {
  return LOOKS[state]?.[1] ?? "calm";
}

export function word(state) {
  return WORDS[state] ?? state;
}

export function icon(state, attributes = {}) {
  const path = svg("path", { d: ICONS[LOOKS[state]?.[0] ?? "ring"] });
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", ...attributes }, path);
}

export function badge(state) {
  return el("span", { class: `badge ${tone(state)}` }, icon(state), word(state));
}
