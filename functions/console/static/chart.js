// The last hour, minute by minute: a row of bars for each thing that happens, each on a scale of its own.

import { el, svg } from "./elements.js";
import { count, minute } from "./format.js";

const ROWS = [
  ["accepted", "Accepted", "active"],
  ["processed", "Processed", "good"],
  ["compensated", "Compensated", "undone"],
  ["error", "Error", "bad"],
];
const HEIGHT = 24;
const LEAST_HEIGHT = 1.5;

export function chart(minutes) {
  return el(
    "div",
    { class: "chart" },
    ROWS.map(([name, title, tone]) => row(minutes, name, title, tone)),
    el(
      "div",
      { class: "axis" },
      [0, 20, 40, 59].map((at) => el("span", {}, minute(minutes[at].at))),
    ),
  );
}

function row(minutes, name, title, tone) {
  const known = minutes.map((each) => each[name]).filter((value) => value !== null);
  const total = known.reduce((sum, value) => sum + value, 0);
  const peak = Math.max(0, ...known);
  const label = `${title}: ${count(total)} in the last hour, at most ${count(peak)} a minute`;
  const bars = minutes.map((each, at) => bar(each, at, name, title, peak));
  return el(
    "div",
    { class: "chart-row" },
    el("span", { class: "chart-title" }, title),
    el("span", { class: "chart-total" }, count(total)),
    svg(
      "svg",
      { viewBox: `0 0 ${minutes.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: tone },
      bars,
    ),
    el("span", { class: "chart-peak" }, peak ? `max ${count(peak)}` : ""),
  );
}

function bar(each, at, name, title, peak) {
  const value = each[name];
  if (value === 0) return null;
  if (value === null) {
    const what = svg("title", {}, `${minute(each.at)} not counted`);
    return svg("rect", { class: "unknown", x: at, y: 0, width: 1, height: HEIGHT }, what);
  }
  const height = Math.max(LEAST_HEIGHT, (HEIGHT * value) / peak);
  const what = svg("title", {}, `${minute(each.at)} ${title.toLowerCase()}: ${count(value)}`);
  return svg("rect", { x: at + 0.1, y: HEIGHT - height, width: 0.8, height }, what);
}
