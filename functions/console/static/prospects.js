// Tells what follows an action, as the interface has tried it.

import { el } from "./elements.js";
import { clock } from "./format.js";

const NEVER_DONE = ["NotStarted", "Skipped", "Undone"];
const WITHOUT_EFFECT = ["event", "timer"];
const KNOWN_ROLES = ["Submitter", "Operator"];

export function told(task, action) {
  const prospect = task.prospects[action];
  if (action === "park") return toldOfParking(task);
  if (action === "cancel" || action === "undo" || task.direction === "undo") return toldOfUndo(task, prospect);
  return [begins(task), ...toldOfRun(task, prospect)];
}

// An operator gives the result of a step that failed.
export function toldOfSkip(task, step, follows) {
  const { undo, role, started_at: begun } = task.steps.find((each) => each.name === step);
  const hasOwn = role !== null && !KNOWN_ROLES.includes(role);
  return [
    el("p", {}, `${step} counts as done, with the result that you give. It is not run again.`),
    undo && begun ? el("p", {}, `It was dispatched: if the task is undone later, ${step} is undone, too.`) : null,
    undo && !begun ? el("p", {}, `It was never dispatched: if the task is undone later, what you did in the place of ${step} stays.`) : null,
    hasOwn ? el("p", {}, `It takes the role ${role}, as telling its event does.`) : null,
    ...toldOfRun(task, follows),
  ];
}

export function toldOfEvent(task, step) {
  const { role } = task.steps.find((each) => each.name === step);
  return [
    el("p", {}, `${step} ends with what you tell, and the task goes on. It can be told once; the first event counts.`),
    el("p", {}, `It takes the role ${role}, as for everybody who tells it.`),
  ];
}

function toldOfParking(task) {
  return [
    el("p", {}, `Epoch ${task.epoch + 1} begins, in which nothing runs until somebody unparks it. It waits for no deployment, and costs nothing.`),
    el("p", {}, "What runs now is asked for again then, under the same key. The time of what it waits for goes on."),
  ];
}

// What an operator found out about a step: that it was done, or that it was not.
export function toldOfAnswer(task, answers, kind) {
  const { step } = answers;
  const done = kind === "done";
  const becomes = done
    ? `${step} counts as done, with the result that you give. It is not run again.`
    : `${step} counts as not done. It is run once more.`;
  const others = task.prospects.answers.filter((other) => other.step !== step).map((other) => other.step);
  if (others.length) return [el("p", {}, becomes), el("p", {}, `The task stays in Error until you have answered for ${others.join(", ")}, too.`)];
  return [el("p", {}, becomes), ...toldOfRun(task, answers[kind])];
}

function begins(task) {
  return el("p", {}, `Epoch ${task.epoch + 1} begins, with its full number of recoveries.`);
}

function toldOfRun(task, { runs }) {
  if (runs.length === 0) return [el("p", {}, "Nothing is left to run: the task becomes Processed at once.")];
  const kept = task.steps.filter((step) => !runs.includes(step.name)).map((step) => step.name);
  return [
    el("p", {}, "These steps run, if the task needs them:"),
    names(runs),
    kept.length ? el("p", {}, `Not run again: ${kept.join(", ")}.`) : null,
  ];
}

function toldOfUndo(task, prospect) {
  return [
    prospect.waits_until ? el("p", {}, `Nothing more is started. What ${awaited(task)} does is awaited first, until `, clock(prospect.waits_until), " at the latest.") : begins(task),
    ...toldOfUndone(task, prospect),
  ];
}

// What an undo that was asked for, or is decided, still undoes.
export function toldOfUndone(task, { undoes, waits_until: until }) {
  const stays = task.steps.filter((step) => !step.undo && !WITHOUT_EFFECT.includes(step.via) && !NEVER_DONE.includes(step.state)).map((step) => step.name);
  return [
    ...(undoes.length
      ? [el("p", {}, "These steps are undone, one after another, in this order:"), names(undoes)]
      : [el("p", {}, "Nothing is left to undo: the task becomes Compensated", until ? " then." : " at once.")]),
    stays.length ? el("p", {}, `These can’t be undone, and stay as they are: ${stays.join(", ")}.`) : null,
    el("p", {}, "An undo is final: no step runs again after it."),
  ];
}

// The steps that must not be repeated, and of which it is not known yet what they have done.
export function awaited(task) {
  return task.steps.filter((step) => step.state === "Running" && !step.idempotent).map((step) => step.name).join(", ");
}

function names(steps) {
  return el("ol", {}, steps.map((name) => el("li", {}, name)));
}
