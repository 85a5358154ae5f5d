// What happened to a task: who ended each epoch and why, and what was told of it.

import { addressOfQueue, addressOfRejected, addressOfTask } from "./addresses.js";
import { el } from "./elements.js";
import { clock, count, NOTHING } from "./format.js";
import { badge } from "./states.js";
import { section, table } from "./tables.js";

export function history(task) {
  const entries = [...task.history].reverse().map((entry) =>
    el(
      "li",
      {},
      el("p", {}, el("strong", {}, entry.event), ` by ${entry.who}, `, clock(entry.at)),
      entry.reason ? el("p", { class: "reason" }, entry.reason) : null,
      entry.last_error && entry.state === "Error" ? el("p", { class: "reason" }, `Its error: ${entry.last_error}`) : null,
      entry.steps.length ? el("p", { class: "note" }, `Epoch ${entry.epoch} ended in ${entry.state}.`) : null,
    ),
  );
  return section("History", el("ol", { class: "history" }, entries));
}

export function notices(task) {
  const rows = task.notices.map((notice) => [
    [notice.kind, notice.cause, notice.step].filter(Boolean).join(" "),
    notice.kind === "alert" ? "operators" : (task.reply_to ?? NOTHING),
    String(notice.epoch),
    clock(notice.sent_at),
  ]);
  return table("Notices", ["Notice", "To", "#Epoch", "Sent"], rows, "None was sent so far.");
}

export function lostMessages(task) {
  if (task.lost_messages.length === 0) return null;
  const rows = task.lost_messages.map((lost) => [lost.queue, inCell(lost.message_id), inCell(lost.reason), clock(lost.at)]);
  return table("Messages lost", ["Queue", "Message", "Reason", "At"], rows);
}

export function rejected(task) {
  if (task.rejected.length === 0) return null;
  const rows = task.rejected.map((message) => [
    message.queue,
    [message.step, message.agent && `Agent ${message.agent}`].filter(Boolean).join(", ") || NOTHING,
    inCell(message.reason),
    inCell(message.message_id),
    clock(message.rejected_at),
  ]);
  const made = table("Messages rejected", ["Queue", "Of", "Reason", "Message", "At"], rows);
  made.append(el("p", { class: "note wrapped" }, el("a", { href: addressOfRejected({}) }, "They can be sent again"), " when what was wrong is mended."));
  return made;
}

export function steps(task) {
  const rows = task.steps.map((step) => [
    named(step, task.children[step.name]),
    badge(step.state),
    clock(step.started_at),
    clock(step.finished_at),
    clock(step.complete_by),
    told(step),
  ]);
  return table("Steps now", ["Step", "State", "Started", "Finished", "Complete by", "Error or note"], rows, "It has no steps.");
}

// Of a step behind a queue, with the way to where its requests wait; of one that is a task, to that.
function named({ name, queue }, child) {
  if (child) return [name, el("a", { class: "queue", href: addressOfTask(child) }, "its task")];
  return queue ? [name, el("a", { class: "queue", href: addressOfQueue(queue) }, queue)] : name;
}

// While a step runs, its error is the last fault of the calls that have failed so far.
function told({ attempts, error, noted, told_by: who, told_why: why }) {
  const tries = attempts ? `${count(attempts)} failed ${attempts === 1 ? "call" : "calls"}` : null;
  const event = who ? [`event by ${who}`, why].filter(Boolean).join(": ") : null;
  const texts = [[tries, error].filter(Boolean).join(", the last: "), noted, event].filter(Boolean);
  return texts.length ? texts.map(inCell) : NOTHING;
}

function inCell(text) {
  return el("span", { class: "told" }, text);
}
