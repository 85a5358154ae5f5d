// Messages that were not processed, the latest first, and how one is sent to its queue again.

import { addressOfRejected } from "./addresses.js";
import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el, replace } from "./elements.js";
import { announce } from "./freshness.js";
import { ago, count, NOTHING } from "./format.js";
import { table } from "./tables.js";

const PAUSE = 5_000;
const COLUMNS = ["Message", "Queue", "Why", "#Bytes", "Rejected", "Sent again", "Action"];

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
    read: (signal) => api.rejected(asked, signal),
    show(list) {
      replace(place, ...content(list, asked, again));
      return PAUSE;
    },
  };
}

function content({ messages, more }, { queue }, again) {
  const rows = messages.map((message) => row(message, again));
  return [
    el("p", { class: "note" }, "Each is kept whole, up to the time of retention. Mend what was wrong before you send one again."),
    table(queue ?? "All queues", COLUMNS, rows, "No message was rejected."),
    queue ? el("p", { class: "pager" }, el("a", { href: addressOfRejected({}) }, "All queues")) : null,
    more ? el("p", { class: "none" }, "There are more; those of a single queue are found by its name above.") : null,
  ];
}

function row(message, again) {
  const label = `Resend ${message.message_id}…`;
  return [
    message.message_id,
    el("a", { href: addressOfRejected({ queue: message.queue }) }, message.queue),
    el("span", { class: "step-error" }, message.reason),
    count(message.size),
    ago(message.rejected_at),
    resent(message),
    message.whole ? el("button", { "aria-label": label, click: () => open(message, again) }, "Resend…") : "Only its beginning is kept",
  ];
}

function resent({ resends, resent_at: at, resent_by: who, resent_why: why }) {
  if (resends === 0) return NOTHING;
  return el("span", { class: "step-error" }, `${count(resends)} ×, last `, ago(at), ` by ${who}: ${why}`);
}

function open(message, again) {
  const { id, message_id: name, queue, resends } = message;
  ask({
    title: `Resend ${name}?`,
    verb: "Resend",
    content: [
      el("p", {}, `It goes to the queue from which it came (${queue}), under a new id, and is processed as any other. The same order is one task; only a notice would arrive twice.`),
      resends ? el("p", { class: "warning" }, `It was sent again ${count(resends)} × before.`) : null,
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
