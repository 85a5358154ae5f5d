// The timeline of a task: a row for the do and the undo of each step, with a bar for each attempt, on one scale.

import { el, svg } from "./elements.js";
import { clock, count, seconds } from "./format.js";
import { scaleOf } from "./scale.js";
import { icon } from "./states.js";

const WIDTH = 1000;
const HEIGHT = 20;
const LEAST_WIDTH = 6;

export function timeline(task) {
  const rows = task.steps.flatMap((step) => [rowOf(task, step, false), rowOf(task, step, true)]).filter((row) => row.bars.length);
  if (rows.length === 0) return el("p", { class: "none" }, "No step has started.");
  rows.sort((one, other) => one.bars[0].from - other.bars[0].from);
  const origin = rows[0].bars[0].from;
  const now = task.finished_at === null ? Date.now() : Date.parse(task.finished_at);
  const ends = task.history.map(({ ended_at: at, end, who }) => ({ at: Date.parse(at), text: `${end} by ${who}` })).filter(({ at }) => at >= origin);
  const scale = scaleOf(measured(rows, ends, origin, now), WIDTH);
  const x = (time) => scale.x(time - origin);
  const note = scale.isLinear ? null : el("p", { class: "note" }, "Not to scale: long times are shortened.");
  return el("div", { class: "timeline" }, el("p", { class: "note" }, "From ", clock(new Date(origin).toISOString())), rows.map((row) => drawn(row, ends, x, now)), axis(scale), note, legend());
}

// The bars of an operation: its attempts, its current start or deferral. Times are in milliseconds.
function rowOf({ finished_at: end }, step, isUndo) {
  const { name, state } = step;
  const operation = isUndo ? step.undo : step.do;
  const bars = operation.attempts.map(({ started_at: at, seconds: length, outcome }) => ({ from: Date.parse(at), to: Date.parse(at) + 1000 * length, outcome }));
  const { started_at: started, finished_at: finished, complete_by: completeBy, deferred_since: deferred, error, gate } = operation;
  const isPending = ["running", "unknown", "not started"].includes(operation.state);
  if (started && bars.at(-1)?.from !== Date.parse(started) && operation.state !== "not started") bars.push({ from: Date.parse(started), to: finished ? Date.parse(finished) : null, outcome: operation.state });
  if (gate && deferred) bars.push({ from: Date.parse(deferred), to: null, outcome: "deferred" });
  const ended = isPending ? "no outcome" : operation.state;
  const current = gate ? "deferred" : end === null ? state.toLowerCase() : ended;
  return { name: isUndo ? `undo of ${name}` : name, isUndo, bars, current, error, completeBy: operation.state === "running" ? Date.parse(completeBy) : null, state };
}

// Milliseconds since the start of the first step.
function measured(rows, ends, origin, now) {
  const bars = rows.flatMap((row) => row.bars);
  const times = [...bars.flatMap(({ from, to }) => [from, to ?? now]), ...ends.map(({ at }) => at), ...rows.map((row) => row.completeBy).filter(Boolean)].map((time) => time - origin);
  return { end: Math.max(...times), times, lengths: bars.map(({ from, to }) => (to ?? now) - from) };
}

function drawn(row, ends, x, now) {
  const { bars, completeBy, isUndo, name, state } = row;
  const marks = [
    bars.map(({ from, to, outcome }) => bar(x(from), x(to ?? now), lookOf(outcome, to, isUndo), `${outcome}, ${seconds(((to ?? now) - from) / 1000)}`)),
    ends.map(({ at, text }) => line("ended", x(at), text)),
    completeBy ? line("complete-by", x(completeBy), "deadline") : null,
  ];
  return el(
    "div",
    { class: "row" },
    el("span", { class: "row-name" }, name),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": described(row) }, marks),
    el("span", { class: "row-state" }, icon(isUndo ? "Undone" : state), labelOf(row)),
  );
}

function lookOf(outcome, to, isUndo) {
  if (to === null) return "open";
  if (outcome === "done") return isUndo ? "undone" : "done";
  return ["refused", "done without result"].includes(outcome) ? "failed" : "lost";
}

function bar(from, to, look, text) {
  return svg("rect", { class: `bar ${look}`, x: from, y: 4, width: Math.max(LEAST_WIDTH, to - from), height: HEIGHT - 8 }, svg("title", {}, text));
}

function line(name, at, title) {
  return svg("path", { class: name, d: `M${at} 1V${HEIGHT - 1}` }, svg("title", {}, title));
}

// The duration of the last bar, or the state of an operation that has not ended.
function labelOf({ bars, current }) {
  const { from, to } = bars.at(-1);
  const length = to === null ? current : seconds((to - from) / 1000);
  return bars.length > 1 ? `${count(bars.length)} × · ${length}` : length;
}

function described({ bars, current, error, name }) {
  const outcomes = bars.map(({ outcome, to }) => (to === null ? current : outcome));
  return [name, ...outcomes, error].filter(Boolean).join(", ");
}

function axis({ marks }) {
  const labels = marks.map(({ text, part, anchor }) => svg("text", { x: `${100 * part}%`, y: "1em", "text-anchor": anchor }, text));
  return el("div", { class: "row axis-row", "aria-hidden": "true" }, el("span", {}), svg("svg", { class: "axis" }, labels), el("span", {}));
}

const SAMPLES = { done: "done", failed: "refused", lost: "no outcome", undone: "undone", open: "under way", "complete-by": "deadline", ended: "an epoch ended" };

function legend() {
  const entry = ([look, text]) => el("span", {}, el("span", { class: `sample ${look}-sample` }), text);
  return el("p", { class: "legend" }, Object.entries(SAMPLES).map(entry));
}
