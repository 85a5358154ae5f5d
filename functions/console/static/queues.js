// The queues: how many messages wait, how many died, and the way to those that were rejected.

import { addressOfRejected } from "./addresses.js";
import { el } from "./elements.js";
import { ago, count, NOTHING, seconds, tally } from "./format.js";
import { table } from "./tables.js";

const MEASURED_WITHIN = 60_000;

export function queues(data) {
  const rows = data.queues.map((each) => [
    toRejected(each.queue, each.queue),
    pile(each.waiting),
    dead(each),
    each.waiting?.oldest_at ? ago(each.waiting.oldest_at) : NOTHING,
    each.waiting ? count(each.waiting.scheduled) : "unknown",
  ]);
  const made = table("Queues", ["Queue", "#Waiting", "#Dead letters", "#Oldest", "#Scheduled"], rows, "No queue is known.");
  if (rows.length) made.append(el("p", { class: "note wrapped" }, "A queue’s name leads to its rejected messages and dead letters."));
  const silent = data.queues.length > 0 && data.queues.every((each) => each.waiting === null);
  if (silent) made.append(el("p", { class: "warning wrapped" }, "Service Bus does not answer. Orders are refused, and recoveries wait."));
  if (refused(data)) made.append(el("p", { class: "warning wrapped" }, intakeText(data.intake)));
  return made;
}

// What was measured long ago says nothing any more.
function refused({ at, intake }) {
  return Boolean(intake?.retry_after) && Date.parse(at) - Date.parse(intake.at) < MEASURED_WITHIN;
}

function intakeText({ messages, not_picked_up: late, oldest_seconds: oldest }) {
  return `New orders are refused (429): about ${count(messages)} messages wait, the oldest for ${seconds(oldest)}, and ${count(late)} tasks are not picked up.`;
}

// Puts the keyboard's focus on the line of a queue, and brings it into sight.
export function goToQueue(place, queue) {
  const link = [...place.querySelectorAll("th a")].find((each) => each.textContent === queue);
  link?.focus();
  link?.scrollIntoView({ block: "center" });
}

function toRejected(queue, text, tone = null) {
  return el("a", { class: tone, href: addressOfRejected({ queue }), "aria-label": `${text}: rejected messages of ${queue}` }, text);
}

function dead({ queue, dead: counted }) {
  return counted?.count ? toRejected(queue, tally(counted), "bad") : pile(counted);
}

function pile(counted) {
  return counted === null ? "unknown" : tally(counted);
}
