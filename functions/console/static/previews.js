// Texts about the consequences of an action, from the preview of the operators' interface.

import { el } from "./elements.js";
import { clock } from "./format.js";

const NEVER_DONE = ["Not started", "Skipped", "Undone"];
const WITHOUT_EFFECT = ["event", "timer"];
const KNOWN_ROLES = ["Submitter", "Operator"];

// `preview` has the `action`, its `step` if it is about one, and the steps that it `runs` or `undoes`.
export function consequences(task, preview) {
  return [...own(task, preview), ...following(task, preview)];
}

function own(task, { action, step, waits_until: until }) {
  switch (action) {
    case "resubmit":
      return [begins(task)];
    case "rebuild":
      return [text(`The deployed code makes the request of ${step} again, with a new effect key.`), begins(task)];
    case "undo":
    case "cancel":
      return [until ? el("p", {}, `No further step starts. The outcome of ${pendingSteps(task)} is awaited first, until `, clock(until), " at the latest.") : begins(task)];
    case "suspend":
      return [text("No further step starts until an operator resumes the task. Calls under way end and count. Deadlines of awaited events move by the length of the suspension.")];
    case "resume":
      return [text(`The task continues in epoch ${task.epoch}.`)];
    case "done":
      return isInQuestion(task, step) ? [text(`${step} counts as done, with your result. It does not run again.`)] : skipped(task, step);
    case "not-done":
      return [text(`${step} counts as not done, and starts again.`)];
    case "undone":
      return [text(`The undo of ${step} counts as done. Undos that it blocked continue.`)];
    case "leave":
      return [text(`The effect of ${step} stays. Undos that it blocked continue.`)];
    case "event":
      return [text(`${step} ends with your event. The first event counts.`), text(`You need the role ${stepOf(task, step).spec.role}, like every sender.`)];
    default:
      return [];
  }
}

function skipped(task, step) {
  const { spec, do: { number } } = stepOf(task, step);
  const undo = number === null ? `It was never dispatched: a later undo of the task does not undo work that you did for ${step}.` : `It was dispatched: a later undo of the task undoes ${step}, too.`;
  return [
    text(`${step} counts as done, with your result. It does not run again.`),
    spec.undo ? text(undo) : null,
    spec.role && !KNOWN_ROLES.includes(spec.role) ? text(`You need the role ${spec.role}, like the sender of its event.`) : null,
  ];
}

// The steps that run or are undone, or the state in which the task ends.
export function following(task, { action, step, runs, state, undoes, waits_until: until }) {
  if (action === "suspend" || action === "event") return [];
  if (state === "Error") return [staysInError(task, step)];
  if (state === "Processed") return [text("No step is left to run: the task becomes Processed at once.")];
  if (runs.length === 0) return undone(task, undoes, until);
  const others = task.steps.filter((each) => !runs.includes(each.name)).map((each) => each.name);
  return [text("These steps run, if the task needs them:"), list(runs), others.length ? text(`Not run again: ${others.join(", ")}.`) : null];
}

function undone(task, undoes, until) {
  const remain = task.steps.filter((step) => !step.spec.undo && step.spec.type !== "workflow" && !WITHOUT_EFFECT.includes(step.spec.type) && !NEVER_DONE.includes(step.state)).map((step) => step.name);
  return [
    ...(undoes.length
      ? [text("These steps are undone, one after another, in this order:"), list(undoes)]
      : [text(`No step is left to undo: the task becomes Compensated${until ? " then." : " at once."}`)]),
    remain.length ? text(`These have no undo, and stay as they are: ${remain.join(", ")}.`) : null,
    text("An undo is final: no step runs again after it."),
  ];
}

// Other steps may need an answer, too.
function staysInError(task, step) {
  const others = [...new Set(task.actions.filter((each) => each.action === "done" && each.step !== step && isInQuestion(task, each.step)).map((each) => each.step))];
  return text(others.length ? `The task stays in Error until you have answered for ${others.join(", ")}, too.` : "The task stays in Error.");
}

export function isInQuestion(task, step) {
  return ["Outcome unknown", "Result missing"].includes(stepOf(task, step).state);
}

export function stepOf(task, name) {
  return task.steps.find((step) => step.name === name);
}

// The steps that must not be repeated, and whose outcome is pending.
export function pendingSteps(task) {
  return task.steps.filter((step) => step.state === "Running" && !step.spec.idempotent).map((step) => step.name).join(", ");
}

function begins(task) {
  return text(`Epoch ${task.epoch + 1} begins. Its recoveries are counted from 0.`);
}

function text(content) {
  return el("p", {}, content);
}

function list(steps) {
  return el("ol", {}, steps.map((name) => el("li", {}, name)));
}
