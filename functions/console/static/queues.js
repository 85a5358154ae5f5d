// The queues: waiting messages, dead letters, and the links to the rejected messages of each queue.

import { addressOfRejected } from "./addresses.js";
import { el } from "./elements.js";
import { ago, clock, count, NOTHING, tally } from "./format.js";
import { table } from "./tables.js";

const MEASURED_WITHIN = 60_000;

export function queues(data) {
  const rows = data.queues.map((each) => [
    toRejected(each.queue, each.queue),
    number(each.waiting),
    dead(each),
    each.waiting?.oldest_at ? ago(each.waiting.oldest_at) : NOTHING,
    each.waiting ? count(each.waiting.scheduled) : "unknown",
  ]);
  const made = table("Queues", ["Queue", "#Waiting", "#Dead letters", "#Oldest", "#Scheduled"], rows, "No queue is known.");
  if (rows.length) made.append(el("p", { class: "note wrapped" }, "The name of a queue links to its rejected messages and dead letters."));
  const isSilent = data.queues.length > 0 && data.queues.every((each) => each.waiting === null);
  if (isSilent) made.append(el("p", { class: "warning wrapped" }, "Service Bus does not answer. Orders are rejected, and recoveries wait."));
  if (rejectsOrders(data)) made.append(intakeWarning(data.intake));
  return made;
}

// An old measurement does not count.
function rejectsOrders({ at, intake }) {
  return Boolean(intake?.retry_after) && Date.parse(at) - Date.parse(intake.at) < MEASURED_WITHIN;
}

function intakeWarning({ messages, oldest_at: oldest, size }) {
  return el("p", { class: "warning wrapped" }, `New orders are rejected (429): about ${count(messages)} messages of ${count(Math.ceil(size / 1024))} KiB wait`, oldest ? [", the oldest since ", clock(oldest)] : "", ".");
}

function toRejected(queue, text, tone = null) {
  return el("a", { class: tone, href: addressOfRejected({ queue }), "aria-label": `${text}: rejected messages of ${queue}`, "data-at": tone === null && `queue ${queue}` }, text);
}

function dead({ queue, dead: counted }) {
  return counted?.count ? toRejected(queue, tally(counted), "bad") : number(counted);
}

function number(counted) {
  return counted === null ? "unknown" : tally(counted);
}
