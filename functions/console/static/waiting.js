// What happens to a task by itself: it waits for a deployment, an event, a time, or an outcome before what was decided.

import { el } from "./elements.js";
import { ago, clock } from "./format.js";
import { awaited, toldOfUndone } from "./prospects.js";
import { icon } from "./states.js";

export function waiting(task) {
  return [
    task.parked ? parked(task) : null,
    task.decision === null ? null : decided(task),
    isBeingUndone(task) ? beingUndone(task) : null,
    ...task.steps.filter((step) => isAwaited(task, step)).map(awaitedStep),
  ];
}

function isAwaited(task, step) {
  const waits = step.via === "event" || step.via === "timer";
  return waits && step.state === "Running" && task.finished_at === null && task.direction === "do";
}

function awaitedStep({ complete_by: until, name, role, via }) {
  const when = [clock(until), " (", ago(until), ")."];
  if (via === "timer") return box("Waits for its time", [`${name} is done at `, ...when], "Waiting costs nothing.");
  return box("Waits for an event", [`${name} waits for an event from a caller of the role ${role}, until `, ...when], "Waiting costs nothing.");
}

function parked(task) {
  if (task.parked_by_operator) return byOperator(task);
  return box(
    "Parked",
    [task.last_error],
    `It goes on by itself as soon as version ${task.workflow_version} of ${task.workflow} is deployed here, with all that the task was recorded with. Waiting for it costs no recovery.`,
  );
}

function byOperator({ history, last_error: reason }) {
  const { at, who } = history.findLast((entry) => entry.event === "parked");
  return box("Parked", [`By ${who}, `, ago(at), `: ${reason}`], "Nothing of it runs until somebody unparks it, or cancels it.");
}

function decided(task) {
  const { ended_by: end, who, reason, until } = task.decision;
  const what = end === null ? "It will be held in Error" : `It will be undone (${end})`;
  return box(
    "Decided, and waits",
    [`${what}, by ${who}: ${reason}`],
    ["Nothing more is started. It happens when the outcome of ", awaited(task), " is known, ", until ? [clock(until), " at the latest (", ago(until), ")."] : "soon."],
    end === null ? [] : toldOfUndone(task, task.prospects.by_itself),
  );
}

function isBeingUndone({ direction, finished_at: ended, parked_by_operator: rests }) {
  return direction === "undo" && ended === null && !rests;
}

function beingUndone(task) {
  return box("Being undone", null, "It can be parked, and takes no other action until it has ended; if a service refuses an undo for good, it is held in Error.", toldOfUndone(task, task.prospects.by_itself));
}

function box(title, content, note, follows = []) {
  return el(
    "section",
    { class: "waiting", "aria-label": title },
    el("p", {}, el("strong", { class: "badge late" }, icon("Parked"), title)),
    content && el("p", { class: "text" }, content),
    el("p", { class: "note" }, note),
    follows,
  );
}
