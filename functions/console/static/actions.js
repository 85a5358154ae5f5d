// What an operator can do about a task in `Error`: told before it is done, and asked for a reason.

import * as api from "./api.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";

const TITLES = { resubmit: "Resubmit", undo: "Undo" };

// `acted()` is called when a task may have changed.
export function actions(task, acted) {
  if (task.prospects === null) return null;
  const open = (action) => () => confirm(task, action, acted);
  const { resubmit, question } = task.prospects;
  return el(
    "div",
    {},
    question === null ? null : el("p", { class: "warning" }, question),
    el(
      "p",
      { class: "buttons" },
      resubmit === null ? null : el("button", { class: "primary", click: open("resubmit") }, "Resubmit…"),
      el("button", { click: open("undo") }, "Undo…"),
    ),
  );
}

// Who goes to another view, as by the browser's own button, has left the question behind.
export function closeDialog() {
  document.querySelector("dialog.action")?.close();
}

// That it goes on is not said any longer than it is true.
export function forgetAnswer(task) {
  const { epoch } = document.getElementById("answer").dataset;
  if (task.epoch > epoch || (task.epoch === Number(epoch) && task.state === "Error")) show("", "");
}

function confirm(task, action, acted) {
  const reason = el("textarea", { id: "reason", required: true, maxlength: 500, rows: 3 });
  const answer = el("div", { class: "answer", role: "alert" });
  const go = el("button", { class: "primary" }, TITLES[action]);
  const close = el("button", { type: "button", click: () => dialog.close() }, "Cancel");
  const submit = async (event) => {
    event.preventDefault();
    if (!reason.value.trim()) return reason.focus();
    go.disabled = true;
    const taken = await attempt(task.id, action, reason.value.trim(), answer);
    go.disabled = false;
    acted();
    if (taken) dialog.close();
    else close.textContent = "Close";
  };
  const dialog = el(
    "dialog",
    { class: "action", "aria-labelledby": "dialog-title", close: () => dialog.remove() },
    el(
      "form",
      { submit },
      el("h2", { id: "dialog-title" }, `${TITLES[action]} ${task.id}?`),
      el("div", { class: "prospect" }, told(task, action)),
      el("label", { for: "reason" }, "Reason, kept in the task’s history"),
      reason,
      answer,
      el("p", { class: "buttons" }, go, close),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
}

async function attempt(id, action, reason, answer) {
  try {
    const taken = await api.act(id, action, reason);
    announce(`${TITLES[action]} accepted: ${id} goes on in epoch ${taken.epoch}, ${taken.state}.`);
    show(`${TITLES[action]} accepted: it goes on in epoch ${taken.epoch}.`, taken.epoch);
    return true;
  } catch (error) {
    replace(answer, ...refused(error));
    return false;
  }
}

function show(text, epoch) {
  const answer = document.getElementById("answer");
  if (answer === null) return;
  answer.textContent = text;
  answer.dataset.epoch = epoch;
}

function refused(error) {
  if (error.status === 409) {
    return [
      el("strong", {}, "Not done: the task has changed."),
      el("p", {}, error.message, " Close this, and see how it stands now."),
    ];
  }
  const known = error instanceof api.ApiError;
  const what = known ? error.message : "No answer. It may have been done all the same: look at the task’s state.";
  return [el("strong", {}, known ? "Not done." : "Not known."), el("p", {}, what)];
}

function told(task, action) {
  const { runs, undoes } = task.prospects[action];
  const begins = el("p", {}, `Epoch ${task.epoch + 1} begins, with its full number of recoveries.`);
  if (task.direction === "undo" || action === "undo") return [begins, ...toldOfUndo(task, undoes)];
  const kept = task.steps.filter((step) => !runs.includes(step.name)).map((step) => step.name);
  return [
    begins,
    el("p", {}, "These steps run, if the order needs them:"),
    names(runs),
    kept.length ? el("p", {}, `Not run again: ${kept.join(", ")}.`) : null,
  ];
}

function toldOfUndo(task, undoes) {
  const back = el("p", {}, "An undo is final: no step runs again after it.");
  if (undoes.length === 0) return [el("p", {}, "Nothing is left to undo: the task becomes Compensated at once."), back];
  return [el("p", {}, "These steps are undone, one after another, in this order:"), names(undoes), back];
}

function names(steps) {
  return el("ol", {}, steps.map((name) => el("li", {}, name)));
}
