// What an operator can do about a task: told before it is done, and asked for a reason.

import { questions } from "./answers.js";
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el } from "./elements.js";
import { announce } from "./freshness.js";
import { told } from "./prospects.js";

const ACTIONS = {
  resubmit: { name: "Resubmit", verb: "Resubmit" },
  undo: { name: "Undo", verb: "Undo" },
  cancel: { name: "Cancel", verb: "Cancel task" },
};

// `acted()` is called when a task may have changed.
export function actions(task, acted) {
  const { resubmit, undo, cancel, question } = task.prospects ?? {};
  if (!resubmit && !undo && !cancel) return null;
  const button = (action, look) => el("button", { ...look, click: () => open(task, action, acted) }, `${ACTIONS[action].verb}…`);
  return el(
    "div",
    { class: "actions" },
    question === null ? null : questions(task, taken(task, "Answer"), acted),
    el(
      "p",
      { class: "buttons" },
      resubmit ? button("resubmit", { class: "primary" }) : null,
      question === null ? null : button("resubmit", { disabled: true, "aria-describedby": "question" }),
      undo ? button("undo") : null,
      cancel && !undo ? button("cancel") : null, // what is in `Error` would be undone either way
    ),
  );
}

function open(task, action, acted) {
  const { name, verb } = ACTIONS[action];
  ask({
    title: `${name} ${task.id}?`,
    verb,
    content: told(task, action),
    act: (reason) => api.act(task, action, reason),
    done: taken(task, name),
    acted,
  });
}

// Says that an action was accepted, and what comes of it.
function taken(task, name) {
  return (given) => {
    const follows = given.epoch > task.epoch ? `goes on in epoch ${given.epoch}` : "waits for an outcome first";
    const what = ["Processed", "Compensated", "Error"].includes(given.state) ? `is ${given.state}` : follows;
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
