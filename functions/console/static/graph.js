// The graph of a task's steps: a box for each defined step, after the steps that it needs.

import { el, svg } from "./elements.js";
import { icon, tone } from "./states.js";

const BOX = { width: 156, height: 46 };
const GAP = { along: 40, across: 16 };
const MARGIN = 4;
const MOST_CHARACTERS = 16;
// A wide graph is drawn smaller, down to this part of its size; a wider one is scrolled.
const SMALLEST = 0.8;

export function graph(task, vertical) {
  const steps = definedSteps(task);
  const needs = Object.fromEntries(steps.map((step) => [step.name, step.needs]));
  const layers = layersOf(steps, needs);
  const places = placed(layers, vertical);
  const size = sizeOf(places);
  const drawn = svg(
    "svg",
    { class: "graph", width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}`, role: "img", "aria-label": described(steps) },
    arrowhead(),
    edges(steps, reduced(needs), places, vertical),
    steps.map((step) => box(step, places.get(step.name))),
  );
  const least = svg("svg", { width: SMALLEST * size.width, height: 0, "aria-hidden": "true" });
  const fitted = el("div", { class: "fitted" }, drawn, least);
  return el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Workflow" }, fitted);
}

// Of the states of several items, the first of these is shown.
const PRIORITY = ["Outcome unknown", "Refused", "Undo refused", "Result missing", "Deferred", "Undoing", "Running", "Waiting", "Interrupted", "Not started", "Completed", "Undone", "Left as it is", "Skipped"];

// The defined steps; the items of a for-each step are one. A step without items is only named by others.
function definedSteps({ steps }) {
  const names = new Set([...steps.map(({ spec }) => spec.step), ...steps.flatMap(({ spec }) => spec.needs)]);
  return [...names].map((name) => definedStep(name, steps.filter(({ spec }) => spec.step === name)));
}

function definedStep(name, items) {
  if (items.length === 0) return { name, needs: [], state: "Skipped", label: "No items" };
  const state = PRIORITY.find((each) => items.some((item) => item.state === each)) ?? items[0].state;
  const alike = items.filter((item) => item.state === state);
  const label = items[0].spec.item === null ? state : `${alike.length} of ${items.length} ${state.toLowerCase()}`;
  return { name, needs: items[0].spec.needs, state, label, error: alike[0].undo.error ?? alike[0].do.error };
}

function described(steps) {
  return steps.map((step) => `${step.name}: ${step.label}`).join(", ");
}

function layersOf(steps, needs) {
  const depths = new Map();
  const depth = (name) => {
    if (!depths.has(name)) depths.set(name, Math.max(-1, ...(needs[name] ?? []).map(depth)) + 1);
    return depths.get(name);
  };
  const layers = [];
  for (const { name } of steps) (layers[depth(name)] ??= []).push(name);
  return layers;
}

function placed(layers, vertical) {
  const across = (vertical ? BOX.width : BOX.height) + GAP.across;
  const along = (vertical ? BOX.height : BOX.width) + GAP.along;
  const widest = Math.max(...layers.map((layer) => layer.length));
  const places = new Map();
  layers.forEach((layer, depth) =>
    layer.forEach((name, at) => {
      const sideways = MARGIN + (at + (widest - layer.length) / 2) * across;
      const forwards = MARGIN + depth * along;
      places.set(name, vertical ? { x: sideways, y: forwards } : { x: forwards, y: sideways });
    }),
  );
  return places;
}

function sizeOf(places) {
  const all = [...places.values()];
  return {
    width: Math.max(...all.map((place) => place.x)) + BOX.width + MARGIN,
    height: Math.max(...all.map((place) => place.y)) + BOX.height + MARGIN,
  };
}

// Removes needs that follow from other needs.
function reduced(needs) {
  const known = new Map();
  const all = (name) => {
    if (!known.has(name)) known.set(name, new Set((needs[name] ?? []).flatMap((each) => [each, ...all(each)])));
    return known.get(name);
  };
  return Object.fromEntries(
    Object.entries(needs).map(([name, needed]) => [
      name,
      needed.filter((each) => !needed.some((other) => other !== each && all(other).has(each))),
    ]),
  );
}

function edges(steps, needs, places, vertical) {
  return steps.flatMap((step) =>
    (needs[step.name] ?? []).map((needed) => edge(places.get(needed), places.get(step.name), vertical)),
  );
}

function edge(from, to, vertical) {
  const [x1, y1] = vertical ? [from.x + BOX.width / 2, from.y + BOX.height] : [from.x + BOX.width, from.y + BOX.height / 2];
  const [x2, y2] = vertical ? [to.x + BOX.width / 2, to.y - 3] : [to.x - 3, to.y + BOX.height / 2];
  const [bend1, bend2] = vertical
    ? [`${x1} ${(y1 + y2) / 2}`, `${x2} ${(y1 + y2) / 2}`]
    : [`${(x1 + x2) / 2} ${y1}`, `${(x1 + x2) / 2} ${y2}`];
  return svg("path", { class: "edge", d: `M${x1} ${y1}C${bend1} ${bend2} ${x2} ${y2}`, "marker-end": "url(#arrowhead)" });
}

function arrowhead() {
  const tip = svg("path", { d: "M0 0L6 3L0 6z" });
  const size = { viewBox: "0 0 6 6", refX: 4, refY: 3, markerWidth: 7, markerHeight: 7, orient: "auto" };
  return svg("defs", {}, svg("marker", { id: "arrowhead", ...size }, tip));
}

function box(step, { x, y }) {
  const name = step.name.length > MOST_CHARACTERS ? `${step.name.slice(0, MOST_CHARACTERS - 1)}…` : step.name;
  return svg(
    "g",
    { class: `box ${tone(step.state)}`, transform: `translate(${x} ${y})` },
    svg("title", {}, [step.name, step.label, step.error].filter(Boolean).join(" · ")),
    svg("rect", { ...BOX, rx: 6 }),
    icon(step.state, { x: 10, y: 15, width: 16, height: 16 }),
    svg("text", { class: "step-name", x: 34, y: 20 }, name),
    svg("text", { class: "step-state", x: 34, y: 36 }, step.label),
  );
}
