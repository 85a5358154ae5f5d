// The scale of a timeline: linear, unless a long time would leave no room for the others.

import { seconds } from "./format.js";

const LEAST_LONG = 120_000;
const MOST_RATIO = 100;
// Milliseconds: shorter times are drawn linearly.
const UNIT = 50;
// Parts of the width: the distance of labels, and the place from which a label is right-aligned.
const APART = 0.15;
const NEAR_END = 0.93;

// `end`, `times` and `lengths` are in milliseconds since the start of the timeline.
export function scaleOf({ end: last, times, lengths }, width) {
  const end = Math.max(1, last);
  const shortest = Math.min(...lengths.filter((length) => length > 0));
  const isLinear = end < LEAST_LONG || !(end / shortest > MOST_RATIO);
  const stops = isLinear ? [0, end] : [...new Set([0, ...times, end])].filter((time) => time >= 0 && time <= end).sort((one, other) => one - other);
  const places = placesOf(stops, isLinear ? (gap) => gap : drawn, width);
  const x = (time) => between(stops, places, Math.min(end, Math.max(0, time)));
  return { x, isLinear, marks: isLinear ? [0, end / 2, end].map((at) => mark(at, x(at), width)) : marksOf(stops, places, width) };
}

// A time that is ten times as long is one unit longer.
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

// As many labels as fit, always the last; of equal labels, the first.
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

// A right-aligned label is on one side of its place.
function fits({ anchor, part }, last) {
  return part >= last.part + (anchor === "end" ? 1.5 * APART : APART);
}

function mark(at, place, width) {
  const part = place / width;
  const anchor = part === 0 ? "start" : part > NEAR_END ? "end" : "middle";
  return { text: at ? `+${seconds(at / 1000)}` : "0", part, anchor };
}
