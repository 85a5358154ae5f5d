// One task: how it stands, what can be done about it, and how it came there.

import { actions, forgetAnswer } from "./actions.js";
import { addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { contents } from "./contents.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { ago, clock, count, NOTHING } from "./format.js";
import { graph } from "./graph.js";
import { history, lostMessages, notices, rejected, steps } from "./history.js";
import { definedSteps } from "./items.js";
import { badge } from "./states.js";
import { facts, section } from "./tables.js";
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
    if (error.status === NOT_FOUND) return null; // it may be on its way
    throw error;
  }
}

function content(task, vertical, again) {
  return [
    summary(task),
    trouble(task),
    waiting(task),
    actions(task, again),
    section("Workflow", graph(definedSteps(task), task.needs, vertical)),
    section("Timeline", timeline(task)),
    steps(task),
  ];
}

function past(task) {
  return [el("div", { class: "columns" }, history(task), notices(task)), lostMessages(task), rejected(task)];
}

// A parked task's reason stands with its state, and what is in question with the answers.
function trouble(task) {
  const { last_error: error, parked, prospects, state } = task;
  if (!error || parked || error === prospects?.question) return null;
  return el("p", { class: state === "Error" ? "trouble" : "trouble past" }, wentOn(task) ?? error);
}

// What a task that goes on names as its last error is why it goes on: such as an operator's words.
function wentOn({ finished_at: ended, history: epochs, last_error: error }) {
  const { event, reason, who } = epochs.at(-1) ?? {};
  return ended === null && reason === error ? `${event} by ${who}: ${reason}` : null;
}

function summary(task) {
  return facts([
    ["State", badge(task.parked ? "Parked" : task.state)],
    ["Workflow", `${task.workflow} v${task.workflow_version}`],
    ["Direction", task.direction],
    ["Epoch", count(task.epoch)],
    ["Recoveries", count(task.failure_count)],
    ["Submitted", ago(task.submitted_at)],
    ["By", task.submitter],
    task.finished_at ? ["Ended", ago(task.finished_at)] : ["Due", task.due_at && ago(task.due_at)],
    ["Held by", task.locked_by ?? NOTHING],
    ["Waits until", task.not_before && !task.finished_at ? clock(task.not_before) : null],
    ["Step of", parent(task)],
    ["Correlation", task.correlation_id],
    ["Trace", trace(task), "wide"],
  ].filter(([, value]) => value !== null));
}

function parent({ parent: of }) {
  return of && [el("a", { href: addressOfTask(of.task) }, of.task), `: ${of.step}`];
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
