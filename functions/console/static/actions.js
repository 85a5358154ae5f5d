// The actions on a task: the buttons, the open questions, and a dialog for each action with its preview and reason.

import * as api from "./api.js";
import { ask, jsonInput } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { consequences, isInQuestion, stepOf } from "./previews.js";

const WHOLE_TASK = { resubmit: "Resubmit", resume: "Resume", suspend: "Suspend", undo: "Undo", cancel: "Cancel task" };
const ENDED = ["Processed", "Compensated", "Error"];

// `acted()` is called when a task may have changed.
export function actions(task, acted) {
  const questions = [inQuestion(task, acted), openUndos(task, acted)].filter(Boolean);
  const buttons = [...wholeTask(task, acted), ...ofSteps(task, acted)];
  return questions.length + buttons.length ? el("div", { class: "actions" }, questions, el("p", { class: "buttons" }, buttons)) : null;
}

function wholeTask(task, acted) {
  const offered = Object.keys(WHOLE_TASK).flatMap((name) => task.actions.filter(({ action }) => action === name));
  const hasUndo = offered.some(({ action }) => action === "undo"); // a cancel in `Error` would do the same
  const isBlocked = task.question !== null && !offered.some(({ action }) => action === "resubmit");
  return [
    isBlocked ? el("button", { disabled: true, "aria-describedby": "question" }, "Resubmit…") : null,
    ...offered
      .filter(({ action }) => !(action === "cancel" && hasUndo))
      .map((preview) => button(task, preview, WHOLE_TASK[preview.action], acted, ["resubmit", "resume"].includes(preview.action) && "primary")),
  ].filter(Boolean);
}

function ofSteps(task, acted) {
  const verbs = { rebuild: "Rebuild the request of", done: "Skip", event: "Send the event of" };
  return task.actions
    .filter(({ action, step }) => action in verbs && !(action === "done" && isInQuestion(task, step)))
    .map((preview) => button(task, preview, `${verbs[preview.action]} ${preview.step}`, acted));
}

function inQuestion(task, acted) {
  const offered = task.actions.filter(({ action, step }) => ["done", "not-done"].includes(action) && isInQuestion(task, step));
  if (task.question === null || offered.length === 0) return null;
  const isKnown = offered.every(({ step }) => stepOf(task, step).state === "Result missing");
  const verb = ({ action, step }) => (action === "not-done" ? "It was not done" : stepOf(task, step).state === "Result missing" ? "Enter its result" : "It was done");
  return questionBox(isKnown ? "A result is missing" : "Was it done?", [
    el("p", { class: "text" }, task.question),
    el("p", { id: "question" }, isKnown ? "Find the result at the service." : "Find out at the service whether the effect took place. The task can be resubmitted after your answer."),
    choices(task, offered, verb, acted),
  ]);
}

function openUndos(task, acted) {
  const offered = task.actions.filter(({ action }) => ["undone", "leave"].includes(action));
  if (offered.length === 0) return null;
  const verb = ({ action }) => (action === "leave" ? "Leave it" : "Undone by hand");
  return questionBox("Undos are open", [
    el("p", {}, "Fix the service and resubmit the task. Or undo a step by hand at its service, or leave its effect, and record that here."),
    choices(task, offered, verb, acted),
  ]);
}

function questionBox(title, content) {
  return el("section", { class: "question", "aria-label": title }, el("h2", {}, title), content);
}

function choices(task, offered, verb, acted) {
  const steps = [...new Set(offered.map(({ step }) => step))];
  const group = (name) => offered.filter(({ step }) => step === name).map((preview) => button(task, preview, verb(preview), acted, null, `${name}: ${verb(preview)}…`));
  return steps.map((name) => el("div", { role: "group", "aria-label": name, class: "choices" }, el("strong", {}, name), group(name)));
}

function button(task, preview, verb, acted, look, label) {
  return el("button", { class: look, "aria-label": label, click: () => open(task, preview, verb, acted) }, `${verb}…`);
}

function open(task, preview, verb, acted) {
  const { action, step } = preview;
  const isSkip = action === "done" && !isInQuestion(task, step);
  const title = action in WHOLE_TASK ? `${verb.split(" ")[0]} ${task.id}?` : isSkip || action === "rebuild" ? `${verb}?` : action === "event" ? verb : `${step}: ${verb.toLowerCase()}`;
  ask({
    title,
    verb,
    content: [consequences(task, preview), action === "event" ? schemaOf(task, step) : null],
    input: inputOf(task, preview),
    act: (reason, content) => api.act(task, isSkip ? "skip" : action, step, reason, content),
    done: (answer) => accepted(task, preview, answer),
    acted,
  });
}

function inputOf(task, { action, step }) {
  if (action === "event") return jsonInput(`Event of ${step} (JSON)`);
  if (action !== "done") return null;
  const { type } = stepOf(task, step).spec;
  const form = { timer: "of a timer: {}", event: "as its sender would send it" }[type] ?? "as its service returns it";
  return jsonInput(`Result of ${step}, ${form} (JSON)`);
}

// The schema of the event is read while the dialog is open.
function schemaOf(task, step) {
  const place = el("div", {});
  const show = ({ event }) => replace(place, el("p", {}, event?.text ? "The event as JSON Schema:" : `The schema of the event is not known: ${event?.why}`), event?.text && el("pre", { class: "body", tabindex: 0, "aria-label": "JSON Schema" }, event.text));
  api.stepContents(task.id, step).then(show, () => replace(place, el("p", {}, "The schema of the event cannot be read now.")));
  return place;
}

function accepted(task, { action, step }, answer) {
  const name = action in WHOLE_TASK ? WHOLE_TASK[action].split(" ")[0] : action === "event" ? "Event" : "Answer";
  const outcome = action === "event" ? `${step} has ended` : `the task ${outcomeOf(task, action, answer)}`;
  announce(`${task.id}: ${name.toLowerCase()} accepted.`);
  show(`${name} accepted: ${outcome}.`, answer);
}

function outcomeOf(task, action, { epoch, state, suspension }) {
  if (suspension !== null) return `is ${suspension}`;
  if (ENDED.includes(state)) return `is ${state}`;
  if (epoch > task.epoch || action === "resume") return `continues in epoch ${epoch}`;
  return "waits for a pending outcome";
}

function show(text, { epoch = "", state = "" } = {}) {
  const answer = document.getElementById("answer");
  if (answer === null) return;
  answer.textContent = text;
  Object.assign(answer.dataset, { epoch, state });
}

// Removes the acceptance of an action as soon as it is outdated.
export function forgetAnswer(task) {
  const { epoch, state } = document.getElementById("answer").dataset;
  const since = task.epoch - epoch;
  if (since > 0 || (since === 0 && task.state === "Error" && state !== "Error")) show("");
}
