// The last hour by minute: a row of bars for each counter on its own scale, and the numbers as a table.

import { el, svg } from "./elements.js";
import { count, minute } from "./format.js";
import { flagged, section, table } from "./tables.js";

const HEIGHT = 24;
const LEAST_HEIGHT = 1.5;

const ROWS = [
  { name: "accepted", title: "Accepted", tone: "active" },
  { name: "processed", title: "Processed", tone: "good" },
  { name: "compensated", title: "Compensated", tone: "undone" },
  { name: "error", title: "Error", tone: "bad" },
  { name: "recovered", title: "Recoveries", tone: "late" },
];

export function lastHour(minutes) {
  return section(
    "The last hour",
    chart(minutes),
    el("p", { class: "note wrapped" }, "The counts of each minute. A task that is processed and cancelled later counts twice. A minute is complete half a minute after its end."),
    numbers(minutes),
  );
}

function chart(minutes) {
  const last = minutes.length - 1;
  const marks = [0, Math.round(last / 3), Math.round((2 * last) / 3), last];
  return el(
    "div",
    { class: "chart" },
    ROWS.map((row) => rowOf(minutes, row)),
    el("div", { class: "axis" }, marks.map((at) => el("span", {}, minute(minutes[at].at)))),
  );
}

function rowOf(minutes, { name, title, tone }) {
  const values = minutes.map((each) => each[name]);
  const total = count(values.reduce((sum, value) => sum + value, 0));
  const peak = Math.max(0, ...values);
  const label = `${title}: ${total} in the last hour, at most ${count(peak)} a minute`;
  const bars = minutes.map((each, at) => bar(each[name], at, peak, `${minute(each.at)} ${title.toLowerCase()}: ${count(each[name])}`));
  return el(
    "div",
    { class: "chart-row" },
    el("span", { class: "chart-title" }, title),
    el("span", { class: "chart-total" }, total),
    svg(
      "svg",
      { viewBox: `0 0 ${minutes.length} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: tone },
      bars,
    ),
    el("span", { class: "chart-peak" }, peak ? `max ${count(peak)}` : ""),
  );
}

function bar(value, at, peak, text) {
  if (!value) return null;
  const height = Math.max(LEAST_HEIGHT, (HEIGHT * value) / peak);
  return svg("rect", { x: at + 0.1, y: HEIGHT - height, width: 0.8, height }, svg("title", {}, text));
}

function numbers(minutes) {
  const rows = minutes.map(rowOfNumbers).reverse();
  const columns = ["Minute", ...ROWS.map(({ title }) => `#${title}`)];
  return el("details", { class: "numbers" }, el("summary", {}, "As numbers"), table("The last hour in numbers", columns, rows));
}

function rowOfNumbers({ at, accepted, processed, compensated, error, recovered }) {
  return [minute(at), count(accepted), count(processed), count(compensated), flagged(error, "bad"), flagged(recovered, "late")];
}
