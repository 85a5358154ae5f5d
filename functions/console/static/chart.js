// What happened, point by point of a time: a row of bars for each thing, each on a scale of its own.

import { el, svg } from "./elements.js";
import { count, seconds } from "./format.js";

const HEIGHT = 24;
const LEAST_HEIGHT = 1.5;

export const COUNTS = [
  { name: "accepted", title: "Accepted", tone: "active" },
  { name: "processed", title: "Processed", tone: "good" },
  { name: "compensated", title: "Compensated", tone: "undone" },
  { name: "error", title: "Error", tone: "bad" },
];
// Of durations there is no sum.
export const DURATIONS = [
  { name: "p50", title: "p50", tone: "calm", lasts: true },
  { name: "p99", title: "p99", tone: "calm", lasts: true },
];

// `over` is "in the last hour", `each` "a minute"; `clock` writes a point's time.
export function chart(points, rows, { over, each, clock }) {
  const last = points.length - 1;
  const marks = [0, Math.round(last / 3), Math.round((2 * last) / 3), last];
  return el(
    "div",
    { class: "chart" },
    rows.map((row) => rowOf(points, row, over, each, clock)),
    el("div", { class: "axis" }, marks.map((at) => el("span", {}, clock(points[at].at)))),
  );
}

function rowOf(points, { name, title, tone, lasts }, over, each, clock) {
  const write = lasts ? seconds : count;
  const values = points.map((point) => point[name]);
  const total = lasts ? "" : count(values.reduce((sum, value) => sum + value, 0));
  const peak = Math.max(0, ...values);
  const label = lasts ? `${title}: at most ${write(peak)} ${over}` : `${title}: ${total} ${over}, at most ${write(peak)} ${each}`;
  const bars = points.map((point, at) => bar(point[name], at, peak, `${clock(point.at)} ${title.toLowerCase()}: ${write(point[name])}`));
  return el(
    "div",
    { class: "chart-row" },
    el("span", { class: "chart-title" }, title),
    el("span", { class: "chart-total" }, total),
    svg(
      "svg",
      { viewBox: `0 0 ${points.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: tone },
      bars,
    ),
    el("span", { class: "chart-peak" }, peak ? `max ${write(peak)}` : ""),
  );
}

function bar(value, at, peak, told) {
  if (!value) return null;
  const height = Math.max(LEAST_HEIGHT, (HEIGHT * value) / peak);
  return svg("rect", { x: at + 0.1, y: HEIGHT - height, width: 0.8, height }, svg("title", {}, told));
}
