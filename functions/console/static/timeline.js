// When each step ran, epoch by epoch: all on one scale, each epoch from its own first step on.

import { el, svg } from "./elements.js";
import { epochsOf } from "./epochs.js";
import { clock, seconds } from "./format.js";
import { scaleOf } from "./scale.js";
import { icon, word } from "./states.js";

const WIDTH = 1000;
const HEIGHT = 20;
const LEAST_WIDTH = 6;
const MOST_STRETCH = 3;

export function timeline(task) {
  const epochs = epochsOf(task).map((epoch) => ({ ...epoch, ...spanOf(epoch) }));
  const scale = scaleOf(epochs.map(measured), WIDTH);
  const note = scale.isToScale ? null : el("p", { class: "note" }, "Not to scale: the longer a time, the more it is shortened. The labels tell how long it is.");
  return el("div", { class: "timeline" }, epochs.map((epoch) => block(epoch, scale)), note, legend());
}

// Milliseconds since the epoch's first step: its end, what happened in between, and how long that took.
function measured({ origin, end, bars }) {
  const times = bars.flatMap((bar) => [bar.from, bar.to, bar.completeBy].filter(Boolean).map((time) => Date.parse(time) - origin));
  const lengths = bars.filter((bar) => bar.from && bar.to).map((bar) => Date.parse(bar.to) - Date.parse(bar.from));
  return { end: end - origin, times, lengths };
}

// Milliseconds: from the first thing that is known of the epoch's steps to the last.
function spanOf({ began, at, bars }) {
  const starts = bars.map((bar) => bar.from ?? began).map(Date.parse);
  const origin = Math.min(...starts, ...(starts.length ? [] : [Date.parse(began)]));
  const limit = at === null ? Date.now() : Date.parse(at);
  const ends = bars.flatMap((bar) => [bar.to, bar.completeBy].filter(Boolean).map(Date.parse));
  const known = Math.max(origin, ...ends);
  // What was found long after its time would leave no room for what happened in it.
  const open = bars.some((bar) => bar.to === null) && limit - origin <= MOST_STRETCH * (known - origin);
  return { origin, limit, end: open ? Math.max(known, limit) : known };
}

function block(epoch, scale) {
  return el(
    "section",
    { class: "epoch" },
    el("h3", {}, `Epoch ${epoch.epoch}`, el("span", { class: "direction" }, epoch.direction === "undo" ? "undo" : "do"), clock(epoch.began)),
    epoch.bars.length ? el("div", { class: "rows" }, epoch.bars.map((bar) => row(bar, epoch, scale)), axis(scale)) : el("p", { class: "none" }, "No step was dispatched."),
    epoch.event === null ? onItsWay(epoch) : ending(epoch),
  );
}

function row(bar, epoch, scale) {
  const x = (time) => scale.x(Date.parse(time) - epoch.origin);
  const drawn = bar.undo ? undone(bar, x) : done(bar, x, scale.x(Math.min(epoch.limit, epoch.end) - epoch.origin));
  return el(
    "div",
    { class: "row" },
    el("span", { class: "row-name" }, bar.name),
    svg(
      "svg",
      { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": described(bar, epoch) },
      drawn,
      bar.completeBy ? line("complete-by", x(bar.completeBy), `complete by ${bar.completeBy}`) : null,
      bar.to === null && epoch.at !== null ? line("taken", x(epoch.at), `${epoch.event} ${epoch.at}`) : null,
    ),
    el("span", { class: `row-state ${bar.state}` }, icon(bar.state), durationOf(bar, epoch)),
  );
}

function done(bar, x, open) {
  const from = x(bar.from);
  const to = bar.to ? x(bar.to) : open;
  const look = bar.to ? bar.state : `${bar.state} open`;
  return svg("rect", { class: `bar ${look}`, x: from, y: 4, width: Math.max(LEAST_WIDTH, to - from), height: HEIGHT - 8 });
}

// A round dot: a line without a length keeps its shape however the drawing is stretched.
function undone(bar, x) {
  return bar.to ? svg("path", { class: "dot", d: `M${Math.max(8, x(bar.to) - 8)} ${HEIGHT / 2}h0.001` }) : null;
}

function line(name, at, title) {
  return svg("path", { class: name, d: `M${at} 1V${HEIGHT - 1}` }, svg("title", {}, title));
}

function durationOf(bar, epoch) {
  if (bar.undo && bar.to === null) return epoch.at === null ? "undoing" : "not undone";
  if (bar.undo) return "undone";
  if (bar.to === null) return epoch.at === null ? word(bar.state).toLowerCase() : "no outcome";
  return seconds((Date.parse(bar.to) - Date.parse(bar.from)) / 1000);
}

function described(bar, epoch) {
  return [bar.name, word(bar.state), durationOf(bar, epoch), bar.error].filter(Boolean).join(", ");
}

function axis({ marks }) {
  const labels = marks.map(({ text, part, anchor }) => svg("text", { x: `${100 * part}%`, y: "1em", "text-anchor": anchor }, text));
  return el("div", { class: "row axis-row", "aria-hidden": "true" }, el("span", {}), svg("svg", { class: "axis" }, labels), el("span", {}));
}

function onItsWay({ parked, waitsUntil }) {
  if (parked) return el("p", { class: "ending" }, "is parked");
  return el("p", { class: "ending" }, waitsUntil ? ["waits until ", clock(waitsUntil)] : "goes on");
}

function ending({ event, at, who, reason }) {
  const by = who ? ` by ${who}` : "";
  return el("p", { class: "ending" }, el("strong", {}, event), by, ", ", clock(at), reason ? `: ${reason}` : "");
}

const SAMPLES = {
  bar: "the step’s work",
  open: "no outcome known",
  line: "complete by",
  taken: "the epoch ended",
  dot: "undone",
};

function legend() {
  const entry = ([look, text]) => el("span", {}, el("span", { class: `sample ${look}-sample` }), text);
  return el("p", { class: "legend" }, Object.entries(SAMPLES).map(entry));
}
