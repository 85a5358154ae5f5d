// Tables and lists of facts.

import { el } from "./elements.js";
import { count } from "./format.js";

// `columns` are names, those of numbers with `#` before; `rows` are lists of cells, the first of them the row's name.
export function table(caption, columns, rows, none) {
  if (rows.length === 0) return section(caption, el("p", { class: "none" }, none));
  const numeric = columns.map((name) => name.startsWith("#"));
  const head = columns.map((name, at) => el("th", { scope: "col", class: numeric[at] && "number" }, name.replace("#", "")));
  const body = rows.map((cells) => el("tr", {}, cells.map((cell, at) => cellOf(cell, at, numeric[at]))));
  const made = el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, body));
  return section(caption, el("div", { class: "scroll" }, made));
}

function cellOf(content, at, numeric) {
  if (at === 0) return el("th", { scope: "row" }, content);
  return el("td", { class: numeric && "number" }, content);
}

// A number that is highlighted unless it is 0.
export function flagged(number, tone, href) {
  if (number === 0) return count(0);
  return href ? el("a", { class: tone, href }, count(number)) : el("strong", { class: tone }, count(number));
}

export function section(title, ...children) {
  return el("section", {}, el("h2", {}, title), children);
}

// `entries` are pairs of a name and a value, or triples with a class.
export function facts(entries) {
  return el("dl", { class: "facts" }, entries.map(([name, value, look]) => el("div", { class: look }, el("dt", {}, name), el("dd", {}, value))));
}

// Rows that cannot be decoded; other rows are shown as usual.
export function corruptRows(rows) {
  return rows.length ? table("Corrupt rows", ["Row", "Reason"], rows.map((row) => [row.key, row.reason])) : null;
}
