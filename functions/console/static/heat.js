// How it goes with each step now, on the graph of its workflow: by colour, sign and words.

import { el } from "./elements.js";
import { count, minute, seconds } from "./format.js";
import { graph } from "./graph.js";
import { section } from "./tables.js";

export function heat({ since, workflows }, vertical) {
  const note = `Attempts at steps that ended since ${minute(since)}, beside the last day.`;
  return section(
    "Now",
    el("p", { class: "note" }, note),
    workflows.map(({ workflow, steps, needs }) => [el("h3", { class: "graph-title" }, workflow), graph(steps.map(boxOf), needs, vertical, `${workflow} now`)]),
  );
}

function boxOf(step) {
  return { name: step.step, state: step.heat, told: told(step), error: beside(step) };
}

function told({ heat: how, direction, ended, failed, p50 }) {
  if (how === "quiet") return ended ? `quiet, ${count(ended)} ended` : "quiet";
  const what = direction === "undo" ? `undo ${how}` : how;
  return how === "failing" ? `${what}, ${count(failed)} of ${count(ended)}` : `${what}, ${seconds(p50)}`;
}

function beside({ usual_p50: usual }) {
  return usual === null ? null : `usually ${seconds(usual)}`;
}
