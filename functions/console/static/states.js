// The states of tasks, steps and gates. Each has a word, an icon and a tone, so that no state is shown by colour alone.

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
  Suspended: ["pause", "late"],
  Suspending: ["pause", "late"],
  "Not started": ["ring", "calm"],
  Running: ["run", "active"],
  Waiting: ["dots", "active"],
  Deferred: ["pause", "late"],
  Interrupted: ["ring", "late"],
  "Outcome unknown": ["dots", "bad"],
  Completed: ["check", "good"],
  "Result missing": ["check", "bad"],
  Refused: ["cross", "bad"],
  Skipped: ["dash", "calm"],
  Undoing: ["dots", "undone"],
  Undone: ["back", "undone"],
  "Undo refused": ["cross", "bad"],
  "Left as it is": ["dash", "undone"],
  closed: ["check", "good"],
  held: ["pause", "late"],
  open: ["pause", "bad"],
  "half-open": ["dots", "late"],
};

export function tone(state) {
  return LOOKS[state]?.[1] ?? "calm";
}

export function icon(state, attributes = {}) {
  const path = svg("path", { d: ICONS[LOOKS[state]?.[0] ?? "ring"] });
  return svg("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true", ...attributes }, path);
}

export function badge(state, text = state) {
  return el("span", { class: `badge ${tone(state)}` }, icon(state), text);
}

// The state of a task, or its suspension.
export function taskBadge({ state, suspension }) {
  if (suspension === null) return badge(state);
  return badge(suspension === "suspended" ? "Suspended" : "Suspending");
}
