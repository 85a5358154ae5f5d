// Texts of times, durations and counts. Times are shown in the browser's time zone.

import { el } from "./elements.js";

const NUMBER = new Intl.NumberFormat("en");
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const MINUTE = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const NOTHING = "–";

export function count(number) {
  return NUMBER.format(number);
}

// A count that is not complete has a plus.
export function tally({ count: counted, more, has_more: hasMore }) {
  return more || hasMore ? `${count(counted)}+` : count(counted);
}

export function seconds(value) {
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 10) return `${value.toFixed(1)} s`;
  if (value < 120) return `${Math.round(value)} s`;
  if (value < 7200) return `${Math.round(value / 60)} min`;
  if (value < 172_800) return `${Math.round(value / 3600)} h`;
  return `${Math.round(value / 86_400)} d`;
}

// In whole seconds.
export function age(time) {
  return whole((Date.now() - new Date(time)) / 1000);
}

export function whole(value) {
  const rounded = Math.max(0, Math.round(value));
  return rounded < 10 ? `${rounded} s` : seconds(rounded);
}

export function minute(time) {
  return MINUTE.format(new Date(time));
}

// The time, with the day unless it is today.
export function clock(time) {
  if (time === null || time === undefined) return NOTHING;
  const at = new Date(time);
  const day = DAY.format(at);
  const text = day === DAY.format(new Date()) ? CLOCK.format(at) : `${day}, ${CLOCK.format(at)}`;
  return el("time", { datetime: time, title: at.toISOString() }, text);
}

// How long ago it was, or how far ahead it is.
export function ago(time) {
  if (time === null || time === undefined) return NOTHING;
  const distance = (Date.now() - Date.parse(time)) / 1000;
  const text = distance >= 0 ? `${whole(distance)} ago` : `in ${whole(-distance)}`;
  return el("time", { datetime: time, title: new Date(time).toISOString() }, text);
}
