// What an operator can do about a task: told before it is done, and asked for a reason.

import { questions } from "./answers.js";
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { jsonInput } from "./json_input.js";
import { told, toldOfEvent, toldOfSkip } from "./prospects.js";

const VERBS = { resubmit: "Resubmit", undo: "Undo", cancel: "Cancel task", park: "Park", unpark: "Unpark" };

// `acted()` is called when a task may have changed.
export function actions(task, acted) {
  const buttons = offered(task, acted);
  if (buttons.length === 0) return null;
  const { question } = task.prospects;
  return el(
    "div",
    { class: "actions" },
    question === null ? null : questions(task, taken(task, "Answer"), acted),
    el("p", { class: "buttons" }, buttons),
  );
}

function offered(task, acted) {
  if (task.prospects === null) return [];
  const { resubmit, undo, cancel, park, unpark, skips, events, question } = task.prospects;
  const whole = (action, look) => el("button", { ...look, click: () => open(task, action, acted) }, `${VERBS[action]}…`);
  return [
    resubmit ? whole("resubmit", { class: "primary" }) : null,
    question === null ? null : whole("resubmit", { disabled: true, "aria-describedby": "question" }),
    unpark ? whole("unpark", { class: "primary" }) : null,
    ...skips.map((skip) => el("button", { click: () => openSkip(task, skip, acted) }, `Skip ${skip.step}…`)),
    ...events.map((step) => el("button", { click: () => openEvent(task, step, acted) }, `Tell ${step}…`)),
    park ? whole("park") : null,
    undo ? whole("undo") : null,
    cancel && !undo ? whole("cancel") : null, // what is in `Error` would be undone either way
  ].filter((button) => button !== null);
}

function open(task, action, acted) {
  const verb = VERBS[action];
  const [name] = verb.split(" ");
  ask({
    title: `${name} ${task.id}?`,
    verb,
    content: told(task, action),
    act: (reason) => api.act(task, action, reason),
    done: taken(task, name),
    acted,
  });
}

function openSkip(task, { step, follows }, acted) {
  ask({
    title: `Skip ${step}?`,
    verb: `Skip ${step}`,
    content: toldOfSkip(task, step, follows),
    input: jsonInput(`Result of ${step}, ${givenBy(task, step)} (JSON)`),
    act: (reason, result) => api.skip(task, step, reason, result),
    done: taken(task, "Skip"),
    acted,
  });
}

function givenBy({ steps }, name) {
  const { via } = steps.find((step) => step.name === name);
  if (via === "timer") return "which gives none by itself: {}";
  return via === "event" ? "as its caller would have told it" : "as its service would have given it";
}

function openEvent(task, step, acted) {
  ask({
    title: `Tell ${step}`,
    verb: `Tell ${step}`,
    content: [toldOfEvent(task, step), fieldsOf(task, step)],
    input: jsonInput(`Event of ${step}, as its caller would tell it (JSON)`),
    act: (reason, body) => api.tell(task, step, reason, body),
    done(given) {
      announce(`Event accepted: ${step} of ${task.id}.`);
      show(`Event accepted: ${step} has it.`, given);
    },
    acted,
  });
}

// What can be told, as the step's model says; the dialog does not wait for it.
function fieldsOf(task, step) {
  const place = el("div", {});
  const show = ({ event: { text, why } }) => replace(place, el("p", {}, text ? "What can be told, as JSON Schema:" : `What can be told is not known here: ${why}`), text && el("pre", { class: "body", tabindex: 0, "aria-label": "JSON Schema" }, text));
  api.stepContents(task.id, step).then(show, () => replace(place, el("p", {}, "What can be told can’t be read now.")));
  return place;
}

// Says that an action was accepted, and what comes of it.
function taken(task, name) {
  return (given) => {
    const follows = given.epoch > task.epoch ? `goes on in epoch ${given.epoch}` : "waits for an outcome first";
    const rests = name === "Park" ? "is parked" : `is ${given.state}`;
    const what = name === "Park" || ["Processed", "Compensated", "Error"].includes(given.state) ? rests : follows;
    announce(`${name} accepted: ${task.id} ${what}.`);
    show(`${name} accepted: it ${what}.`, given);
  };
}

function show(text, { epoch = "", state = "" } = {}) {
  const answer = document.getElementById("answer");
  if (answer === null) return;
  answer.textContent = text;
  Object.assign(answer.dataset, { epoch, state });
}

// That it goes on is not said any longer than it is true.
export function forgetAnswer(task) {
  const { epoch, state } = document.getElementById("answer").dataset;
  const since = task.epoch - epoch;
  if (since > 0 || (since === 0 && task.state === "Error" && state !== "Error")) show("");
}
