// The reasons why a task waits: a suspension, a pending decision, an undo, a gate, an event, a time, or a child task.

import { addressOfGate, addressOfTask } from "./addresses.js";
import { el } from "./elements.js";
import { ago, clock } from "./format.js";
import { following, pendingSteps } from "./previews.js";
import { icon } from "./states.js";

export function waiting(task) {
  return [
    task.suspension === null ? null : suspended(task),
    task.decision === null ? null : decided(task),
    task.direction === "undo" && task.finished_at === null && task.suspension === null ? beingUndone(task) : null,
    ...(task.finished_at === null ? task.steps.flatMap((step) => ofStep(task, step)) : []),
  ];
}

function suspended(task) {
  const { reason, suspension, suspended_by_operator: byOperator, workflow, workflow_version: version } = task;
  const title = suspension === "suspended" ? "Suspended" : "Suspending";
  const calls = suspension === "suspended" ? "" : `${suspension.replace("suspending: ", "")}; it ends and counts. `;
  const note = byOperator ? "No step starts until an operator resumes or cancels the task." : `The task resumes when version ${version} of ${workflow} is deployed. Its deadlines do not run.`;
  return box(title, reason, `${calls}${note}`);
}

function decided(task) {
  const { end, who, reason } = task.decision;
  const next = end === "stopped" ? "The task will stop in Error" : `The task will be undone (${end})`;
  const steps = pendingSteps(task);
  const until = task.decision_at ? [clock(task.decision_at), " at the latest (", ago(task.decision_at), ")."] : "soon.";
  return box(
    "Decision pending",
    `${next}, by ${who}: ${reason}`,
    ["No further step starts. The decision is carried out when ", steps ? `the outcome of ${steps} is known, ` : "no outcome is pending, ", until],
    end === "stopped" ? [] : automatic(task),
  );
}

function beingUndone(task) {
  return box("Being undone", null, "The task can be suspended. It stops in Error if a service refuses an undo.", automatic(task));
}

// The preview without an action: the steps that follow automatically.
function automatic(task) {
  const preview = task.actions.find(({ action }) => action === null);
  return preview ? following(task, preview) : [];
}

function ofStep(task, step) {
  const operation = task.direction === "undo" ? step.undo : step.do;
  const { name, spec, state, child } = step;
  if (state === "Deferred") return [deferred(name, operation)];
  if (operation.find_by) return [box("Outcome unknown", `The Agent ${spec.agent} looks up the outcome of ${name}.`, ["Until ", clock(operation.find_by), " (", ago(operation.find_by), ")."])];
  if (state !== "Waiting" || task.direction === "undo") return [];
  const until = [clock(operation.complete_by), " (", ago(operation.complete_by), ")."];
  if (spec.type === "workflow") return [box("Waits for a child task", [`${name} is `, el("a", { href: addressOfTask(child) }, "a task of its own"), ", with the deadline ", ...until])];
  if (spec.type === "timer") return [box("Waits for a time", [`${name} ends at `, ...until])];
  return [box("Waits for an event", [`${name} waits for an event from a caller with the role ${spec.role}, until `, ...until])];
}

function deferred(name, { gate, deferred_since: since, defer_by: until, error }) {
  return box(
    "Deferred",
    [`${name} waits behind the gate `, el("a", { href: addressOfGate(gate) }, gate), since ? [" since ", clock(since)] : "", error ? `: ${error}` : "."],
    ["The step starts when the gate releases it; no failure is counted.", until ? [" It counts as overdue at ", clock(until), "."] : ""],
  );
}

function box(title, content, note = null, details = []) {
  return el(
    "section",
    { class: "waiting", "aria-label": title },
    el("p", {}, el("strong", { class: "badge late" }, icon("Suspended"), title)),
    content && el("p", { class: "text" }, content),
    note && el("p", { class: "note" }, note),
    details,
  );
}
