// The page of one task: its state, its actions, its steps and its history.

import { actions, forgetAnswer } from "./actions.js";
import { addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { contents } from "./contents.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { ago, clock, count } from "./format.js";
import { graph } from "./graph.js";
import { history, rejected, steps } from "./history.js";
import { taskBadge } from "./states.js";
import { corruptRows, facts, section } from "./tables.js";
import { timeline } from "./timeline.js";
import { waiting } from "./waiting.js";

const HTTP = /^https?:\/\//;
const NOT_FOUND = 404;
const PAUSE_UNDER_WAY = 1_500;
const PAUSE_AT_REST = 5_000;

export function taskView(id) {
  const place = el("div", { class: "task" });
  const after = el("div", { class: "task" });
  const held = contents(id);
  const answer = el("p", { id: "answer", class: "answer" });
  const narrow = matchMedia("(max-width: 640px)");
  let again;
  return {
    title: id,
    page: "tasks",
    open(look) {
      again = look;
      narrow.addEventListener("change", look);
      return [el("h1", { class: "id" }, id), answer, place, el("div", { class: "held" }, held.element), after];
    },
    close() {
      narrow.removeEventListener("change", again);
      closeDialog();
    },
    read: (signal) => taskOrNull(id, signal),
    show(task) {
      held.element.hidden = task === null;
      replace(place, ...(task === null ? [el("p", { class: "none" }, "No task is recorded under this id.")] : content(task, narrow.matches, again)));
      replace(after, ...(task === null ? [] : past(task)));
      if (task) held.follow(task);
      if (task) forgetAnswer(task);
      return task?.finished_at || task === null ? PAUSE_AT_REST : PAUSE_UNDER_WAY;
    },
  };
}

async function taskOrNull(id, signal) {
  try {
    return await api.task(id, signal);
  } catch (error) {
    if (error.status === NOT_FOUND) return null; // the order may not be admitted yet
    throw error;
  }
}

function content(task, vertical, again) {
  return [
    summary(task),
    problem(task),
    waiting(task),
    actions(task, again),
    section("Workflow", graph(task, vertical)),
    section("Timeline", timeline(task)),
    steps(task),
  ];
}

function past(task) {
  return [history(task), rejected(task), corruptRows(task.corrupt)];
}

// The reason of a suspension or of a question is shown in its own box.
function problem({ history: epochs, question, reason, state, suspension }) {
  if (!reason || suspension !== null || reason === question) return null;
  const { end, who, reason: last } = epochs.at(-1) ?? {};
  const text = state !== "Error" && last === reason ? `${end} by ${who}: ${reason}` : reason;
  return el("p", { class: state === "Error" ? "trouble" : "trouble past" }, text);
}

function summary(task) {
  const { order } = task;
  return facts([
    ["State", taskBadge(task)],
    ["Workflow", `${task.workflow} v${task.workflow_version}`],
    ["Direction", task.direction],
    ["Epoch", count(task.epoch)],
    ["Recoveries", count(task.failure_count)],
    ["Submitted", ago(task.submitted_at)],
    ["By", order.submitter],
    task.finished_at ? ["Ended", ago(task.finished_at)] : ["Due", ago(task.due_at)],
    ["Waiting for", ["none", "suspended"].includes(task.waiting_for) ? null : task.waiting_for],
    ["Locked by", task.locked_by],
    ["Next recovery", task.resume_at && !task.finished_at ? clock(task.resume_at) : null],
    ["Time limit", task.expires_at && !task.finished_at ? clock(task.expires_at) : null],
    ["Step of", parent(order)],
    ["Correlation", order.correlation_id],
    ["Trace", trace(task), "wide"],
  ].filter(([, value]) => value !== null));
}

function parent({ parent: task, parent_step: step }) {
  return task && [el("a", { href: addressOfTask(task) }, task), `: ${step}`];
}

function trace({ trace_id: id, trace_url: url }) {
  if (id === null) return null;
  const copy = el("button", { class: "copy", "aria-label": "Copy the trace id", click: (event) => copied(id, event.currentTarget) }, "Copy");
  return [url && HTTP.test(url) ? el("a", { href: url, rel: "noreferrer" }, id) : id, " ", copy];
}

async function copied(id, button) {
  try {
    await navigator.clipboard.writeText(id);
    button.textContent = "Copied";
    announce("Trace id copied.");
  } catch {
    button.textContent = "Not copied"; // the browser does not allow it
    announce("Trace id not copied.");
  }
}
