// Operators' actions on rejected messages: resend, discard, and discard all.

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
      el("p", {}, `The message is sent to ${liveQueue(queue)} again, under a new id. A repeated order is one task; a repeated notice arrives twice.`),
      resends ? el("p", { class: "warning" }, `It was sent again ${times(resends)} before.`) : null,
    ],
    act: (reason) => api.resend(id, reason),
    done: () => show(`Sent again: ${name}.`),
    acted,
  });
}

export function discard({ id, message_id: name }, acted) {
  ask({
    title: `Discard ${name}?`,
    verb: "Discard",
    content: el("p", {}, "Its body is deleted, and it cannot be sent again. Its description, your name and the reason are kept."),
    act: (reason) => api.discard(id, reason),
    done() {
      show(`Discarded: ${name}.`);
      if (location.hash.startsWith("#/rejected/")) location.hash = "#/rejected";
    },
    acted,
  });
}

// Discards the messages that were rejected until a time. It can be repeated after an error.
export function discardAll(until, number, queue, acted) {
  const progress = el("p", { role: "status" });
  ask({
    title: `Discard ${number} messages?`,
    verb: "Discard all",
    content: [
      el("p", {}, `All messages ${queue ? `of ${queue}` : "of all queues"} that were rejected until now: their bodies are deleted, and they cannot be sent again. Their descriptions, your name and the reason are kept.`),
      progress,
    ],
    act: (reason) => inTurn(queue, until, reason, (number) => (progress.textContent = `${count(number)} discarded so far.`)),
    done: (number) => show(`Discarded: ${count(number)} messages.`),
    acted,
  });
}

async function inTurn(queue, until, reason, report) {
  let number = 0;
  for (;;) {
    const { discarded, left } = await api.discardAll(queue, until, reason);
    number += discarded;
    report(number);
    if (!left || discarded === 0) return number;
  }
}

function show(text) {
  announce(text);
  document.getElementById("answer").textContent = text;
}

// The queue without the suffix of its dead letters.
export function liveQueue(queue) {
  return queue.split("/$")[0];
}

export function times(number) {
  return number === 1 ? "once" : `${count(number)} times`;
}
