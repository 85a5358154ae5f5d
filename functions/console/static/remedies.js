// What an operator does about rejected messages: told before it is done, and asked for a reason.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el } from "./elements.js";
import { announce } from "./freshness.js";
import { count } from "./format.js";

// `acted()` is called when the messages may have changed.
export function resend(message, acted) {
  const { id, message_id: name, queue, resends } = message;
  ask({
    title: `Resend ${name}?`,
    verb: "Resend",
    content: [
      el("p", {}, `It goes to ${living(queue)} again, under a new id, and is processed as any other. The same content is one task; only a notice would arrive twice.`),
      resends ? el("p", { class: "warning" }, `It was sent again ${times(resends)} before.`) : null,
    ],
    act: (reason) => api.resend(id, reason),
    done: () => tell(`Sent again: ${name}.`),
    acted,
  });
}

export function discard({ id, message_id: name }, acted) {
  ask({
    title: `Discard ${name}?`,
    verb: "Discard",
    content: el("p", {}, "Its body is deleted, and it can’t be sent again. What it was, who discarded it and why are kept."),
    act: (reason) => api.discard(id, reason),
    done() {
      tell(`Discarded: ${name}.`);
      if (location.hash.startsWith("#/rejected/")) location.hash = "#/rejected"; // there is nothing left to show
    },
    acted,
  });
}

// Discards the messages that were rejected until a time; after an error, the same can be asked for again.
export function discardAll(until, number, queue, acted) {
  const progress = el("p", { role: "status" });
  ask({
    title: `Discard ${number} messages?`,
    verb: "Discard all",
    content: [
      el("p", {}, `All ${queue ? `of ${queue} ` : ""}that were rejected until now${queue ? "" : ", of all queues"}: their bodies are deleted, and they can’t be sent again. What they were, who discarded them and why are kept.`),
      progress,
    ],
    act: (reason) => inTurn(queue, until, reason, (gone) => (progress.textContent = `${count(gone)} discarded so far.`)),
    done: (gone) => tell(`Discarded: ${count(gone)} messages.`),
    acted,
  });
}

async function inTurn(queue, until, reason, told) {
  let gone = 0;
  for (;;) {
    const { discarded, left } = await api.discardAll(queue, until, reason);
    gone += discarded;
    told(gone);
    if (!left || discarded === 0) return gone;
  }
}

function tell(text) {
  announce(text);
  document.getElementById("answer").textContent = text;
}

// The queue that dead letters belong to, or the queue itself.
export function living(queue) {
  return queue.split("/$")[0];
}

export function times(number) {
  return number === 1 ? "once" : `${count(number)} times`;
}
