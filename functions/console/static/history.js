// The history of a task, its steps as a table, and its rejected messages.

import { addressOfQueue, addressOfRejected, addressOfTask } from "./addresses.js";
import { el } from "./elements.js";
import { clock, count, NOTHING } from "./format.js";
import { badge } from "./states.js";
import { section, table } from "./tables.js";

// The closed epochs, the newest first, after the submission.
export function history(task) {
  const entries = [...task.history].reverse().map(({ direction, end, ended_at: at, epoch, reason, runs, who }) =>
    el(
      "li",
      {},
      el("p", {}, el("strong", {}, end), ` by ${who}, `, clock(at)),
      reason ? el("p", { class: "reason" }, reason) : null,
      el("p", { class: "note" }, `End of epoch ${epoch} (${direction}, ${count(runs)} ${runs === 1 ? "run" : "runs"}).`),
    ),
  );
  const submission = el("li", {}, el("p", {}, el("strong", {}, "submitted"), ` by ${task.order.submitter}, `, clock(task.submitted_at)));
  return section("History", el("ol", { class: "history" }, entries, submission));
}

export function rejected(task) {
  if (task.rejected.length === 0) return null;
  const rows = task.rejected.map((message) => [
    message.queue,
    message.step || NOTHING,
    inCell(message.reason),
    inCell(message.message_id),
    clock(message.rejected_at),
  ]);
  const made = table("Rejected messages", ["Queue", "Of", "Reason", "Message", "At"], rows);
  made.append(el("p", { class: "note wrapped" }, el("a", { href: addressOfRejected({}) }, "Send them again"), " after the cause is fixed."));
  return made;
}

export function steps(task) {
  const rows = task.steps.map((step) => {
    const operation = task.direction === "undo" && step.undo.started_at ? step.undo : step.do;
    return [named(step), badge(step.state), clock(operation.started_at), clock(operation.finished_at), clock(operation.complete_by), noted(step, operation)];
  });
  return table("Steps", ["Step", "State", "Started", "Finished", "Deadline", "Error or note"], rows, "The task has no steps.");
}

// A queue step leads to its queue, a workflow step to its child task.
function named({ child, name, spec }) {
  const queue = `agent-${spec.agent}-requests`;
  if (child) return [name, el("a", { class: "queue", href: addressOfTask(child) }, "child task")];
  return spec.type === "queue" ? [name, el("a", { class: "queue", href: addressOfQueue(queue) }, queue)] : name;
}

function noted({ event_by: sender, note, rebuilt }, { attempts, error }) {
  const failed = attempts.filter(({ outcome }) => outcome !== "done").length;
  const texts = [
    failed > 1 ? `${count(failed)} attempts without success` : null,
    error,
    rebuilt ? `request rebuilt ${rebuilt === 1 ? "once" : `${count(rebuilt)} times`}` : null,
    note,
    sender && `event by ${sender}`,
  ].filter(Boolean);
  return texts.length ? texts.map(inCell) : NOTHING;
}

function inCell(text) {
  return el("span", { class: "cell-text" }, text);
}
