// Where a time stands in a timeline: to scale, unless something long would leave no room for the rest.

import { seconds } from "./format.js";

const LEAST_LONG = 120_000;
const MOST_RATIO = 100;
// Milliseconds: what is shorter is drawn to scale.
const UNIT = 50;
// Parts of the width that labels need, and from which on one ends at its place.
const APART = 0.15;
const NEAR_END = 0.93;

// `spans` have an `end`, `times`, and `lengths`, all in milliseconds since the beginning of each.
export function scaleOf(spans, width) {
  const end = Math.max(1, ...spans.map((span) => span.end));
  const shortest = Math.min(...spans.flatMap((span) => span.lengths.filter((length) => length > 0)));
  const isToScale = end < LEAST_LONG || !(end / shortest > MOST_RATIO);
  const stops = isToScale ? [0, end] : [...new Set([0, ...spans.flatMap((span) => span.times), end])].filter((time) => time >= 0 && time <= end).sort((one, other) => one - other);
  const places = placesOf(stops, isToScale ? (gap) => gap : drawn, width);
  const x = (time) => between(stops, places, Math.min(end, Math.max(0, time)));
  return { x, isToScale, marks: isToScale ? [0, end / 2, end].map((at) => mark(at, x(at), width)) : marksOf(stops, places, width) };
}

// Ten times as long is drawn one unit longer.
function drawn(gap) {
  return gap < UNIT ? gap / UNIT : 1 + Math.log10(gap / UNIT);
}

function placesOf(stops, length, width) {
  const places = [0];
  for (let at = 1; at < stops.length; at += 1) places.push(places[at - 1] + length(stops[at] - stops[at - 1]));
  const all = places.at(-1);
  return places.map((place) => (place / all) * width);
}

function between(stops, places, time) {
  const after = Math.max(1, stops.findIndex((stop) => stop >= time));
  const part = (time - stops[after - 1]) / (stops[after] - stops[after - 1]);
  return places[after - 1] + part * (places[after] - places[after - 1]);
}

// As many as there is room for, the end always; of those that would say the same, the first.
function marksOf(stops, places, width) {
  const marks = [];
  const all = stops.map((stop, at) => mark(stop, places[at], width));
  for (const made of all) {
    while (made === all.at(-1) && marks.length > 1 && !fits(made, marks.at(-1))) marks.pop();
    const last = marks.at(-1);
    if (!last || (fits(made, last) && made.text !== last.text)) marks.push(made);
  }
  return marks;
}

// What ends at its place lies on one side of it with all its length.
function fits({ anchor, part }, last) {
  return part >= last.part + (anchor === "end" ? 1.5 * APART : APART);
}

function mark(at, place, width) {
  const part = place / width;
  const anchor = part === 0 ? "start" : part > NEAR_END ? "end" : "middle";
  return { text: at ? `+${seconds(at / 1000)}` : "0", part, anchor };
}
