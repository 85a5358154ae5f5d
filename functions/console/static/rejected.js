// Messages that were not processed, the latest first, what each holds, and how one is sent to its queue again.

import { addressOfMessage, addressOfRejected, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { ask, closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { ago, count } from "./format.js";
import { section } from "./tables.js";

const PAUSE = 5_000;

export function rejectedView(query) {
  const asked = Object.fromEntries(query);
  const place = el("div", { class: "rejected" });
  const answer = el("p", { id: "answer", class: "answer" });
  let again;
  return {
    title: "Rejected messages",
    page: "rejected",
    open(look) {
      again = look;
      return [el("h1", {}, "Rejected messages"), answer, place];
    },
    close: closeDialog,
    read: (signal) => api.rejected(asked, signal),
    show(list) {
      replace(place, ...content(list, asked, again));
      return PAUSE;
    },
  };
}

export function messageView(id) {
  const place = el("ol", { class: "lines" });
  const answer = el("p", { id: "answer", class: "answer" });
  const body = el("pre", { class: "body", tabindex: 0, "aria-label": "Body" });
  let again;
  return {
    title: "Rejected message",
    page: "rejected",
    open(look) {
      again = look;
      const note = "The token of a request or a reply is left out; it is sent again with the rest.";
      return [el("h1", {}, "Rejected message"), answer, place, section("Body", body, el("p", { class: "note" }, note))];
    },
    close: closeDialog,
    read: (signal) => api.rejectedMessage(id, signal),
    show(message) {
      replace(place, line(message, again));
      const text = told(message);
      if (body.textContent !== text) body.textContent = text; // what is selected in it stays selected
      return PAUSE;
    },
  };
}

function told({ body, more }) {
  if (body === null) return "It is no text.";
  return more ? `${body}… (only its beginning is shown)` : body || "It is empty.";
}

function content({ messages, more }, { queue }, again) {
  const lines = messages.map((message) => line(message, again));
  return [
    el("p", { class: "note" }, "Mend what was wrong before you send one again. They are kept as long as finished tasks are."),
    section(
      queue ?? "All queues",
      lines.length ? el("ol", { class: "lines", "aria-label": "Rejected messages" }, lines) : el("p", { class: "none" }, "No message was rejected."),
    ),
    more ? el("p", { class: "none" }, "There are more; follow the name of a queue to see those of that queue only.") : null,
    queue ? el("p", { class: "pager" }, el("a", { href: addressOfRejected({}) }, "All queues")) : null,
  ];
}

function line(message, again) {
  const { message_id: name, queue, reason, rejected_at: at, size, whole } = message;
  const button = el("button", { "aria-label": `Resend ${name}…`, click: () => open(message, again) }, "Resend…");
  return el(
    "li",
    { class: "message" },
    el("strong", {}, el("a", { href: addressOfMessage(message.id) }, name)),
    whole ? button : el("span", { class: "note" }, "Only its beginning is kept"),
    el("p", { class: "text" }, reason),
    about(message),
    el("p", { class: "note" }, el("a", { href: addressOfRejected({ queue: living(queue) }) }, queue), ` · ${count(size)} bytes · rejected `, ago(at)),
    resent(message),
  );
}

function about({ task, step, agent }) {
  if (!task && !agent) return null;
  const names = [step && `step ${step}`, agent && `Agent ${agent}`].filter(Boolean).join(", ");
  return el("p", { class: "note" }, task ? el("a", { href: addressOfTask(task) }, task) : null, task && names ? " · " : "", names);
}

function resent({ resends, resent_at: at, resent_by: who, resent_why: why }) {
  if (resends === 0) return null;
  return el("p", { class: "note" }, `Sent again ${times(resends)}, last `, ago(at), ` by ${who}: ${why}`);
}

// The queue that dead letters belong to, or the queue itself.
function living(queue) {
  return queue.split("/$")[0];
}

function times(number) {
  return number === 1 ? "once" : `${count(number)} times`;
}

function open(message, again) {
  const { id, message_id: name, queue, resends } = message;
  ask({
    title: `Resend ${name}?`,
    verb: "Resend",
    content: [
      el("p", {}, `It goes to ${living(queue)} again, under a new id, and is processed as any other. The same content is one task; only a notice would arrive twice.`),
      resends ? el("p", { class: "warning" }, `It was sent again ${times(resends)} before.`) : null,
    ],
    act: (reason) => api.resend(id, reason),
    done() {
      const text = `Sent again: ${name}.`;
      announce(text);
      document.getElementById("answer").textContent = text;
    },
    acted: again,
  });
}
