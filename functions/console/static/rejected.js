// The rejected messages and dead letters, the newest first, and the page of one message.

import { addressOfMessage, addressOfRejected, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { ago, count, tally } from "./format.js";
import { discard, discardAll, liveQueue, resend, times } from "./rejected_actions.js";
import { section } from "./tables.js";

const PAUSE = 5_000;

// The number of messages of a page, with a plus if there are more.
const total = ({ messages, more }) => tally({ count: messages.length, more });

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
      const note = "Start ids and secret fields are hidden. A resend contains them.";
      return [el("h1", {}, "Rejected message"), answer, place, section("Body", body, el("p", { class: "note" }, note))];
    },
    close: closeDialog,
    read: (signal) => api.rejectedMessage(id, signal),
    show(message) {
      replace(place, line(message, again));
      const text = textOf(message);
      if (body.textContent !== text) body.textContent = text; // a selected text stays selected
      return PAUSE;
    },
  };
}

function textOf({ body, more, why }) {
  if (body === null) return why;
  return more ? `${body}… (only the beginning is shown)` : body || "The body is empty.";
}

function content(list, asked, again) {
  const { queue, discarded, until } = asked;
  const lines = list.messages.map((message) => line(message, again));
  const none = discarded ? "No message was discarded." : "No message was rejected.";
  return [
    el("p", { class: "note" }, discarded ? "Discarded messages, without their bodies." : "Fix the cause before you send a message again. Messages are kept as long as finished tasks."),
    choice(asked),
    section(
      `${queue ?? "All queues"}: ${total(list)}`,
      lines.length ? el("ol", { class: "lines", "aria-label": discarded ? "Discarded messages" : "Rejected messages" }, lines) : el("p", { class: "none" }, none),
    ),
    pager(list, asked),
    discarded || until || list.messages.length < 2 ? null : all(list, queue ?? null, again),
  ];
}

function choice({ queue, discarded }) {
  const link = (text, others, isChosen) => el("a", { href: addressOfRejected(others), "aria-current": isChosen && "true" }, text);
  return el(
    "nav",
    { class: "choice", "aria-label": "Messages" },
    link("Rejected", { queue }, !discarded),
    link("Discarded", { queue, discarded: true }, Boolean(discarded)),
    queue ? link("All queues", { discarded }, false) : null,
  );
}

// The next page repeats the messages of the last time of this one.
function pager({ messages, more }, { until, ...others }) {
  const first = until ? el("a", { href: addressOfRejected(others) }, "First page") : null;
  const earlier = more ? el("a", { href: addressOfRejected({ ...others, until: messages.at(-1).rejected_at }) }, "Next page") : null;
  return first || earlier ? el("nav", { class: "pager", "aria-label": "Pages" }, first, earlier) : null;
}

function all(list, queue, again) {
  const text = `Discard all ${total(list)}…`;
  return el("p", { class: "buttons all" }, el("button", { class: "act", "aria-label": "Discard all…", click: () => discardAll(list.messages[0].rejected_at, total(list), queue, again) }, text));
}

function line(message, again) {
  const { message_id: name, queue, reason, rejected_at: at, size } = message;
  const others = { queue: liveQueue(queue), discarded: message.discarded_at && true };
  return el(
    "li",
    { class: "message" },
    el("strong", {}, message.discarded_at ? name : el("a", { href: addressOfMessage(message.id) }, name)),
    message.discarded_at ? null : buttons(message, again),
    el("p", { class: "text" }, reason),
    about(message),
    el("p", { class: "note" }, el("a", { href: addressOfRejected(others) }, queue), ` · ${count(size)} bytes · rejected `, ago(at)),
    resent(message),
    discarded(message),
  );
}

function buttons(message, again) {
  const { message_id: name, whole } = message;
  const button = (text, act) => el("button", { class: "act", "aria-label": `${text} ${name}…`, click: () => act(message, again) }, `${text}…`);
  return el("span", { class: "buttons" }, whole ? button("Resend", resend) : el("span", { class: "note" }, "Only the beginning is kept"), button("Discard", discard));
}

function about({ task, step }) {
  return task && el("p", { class: "note" }, el("a", { href: addressOfTask(task) }, task), step && ` · step ${step}`);
}

function resent({ resends, resent_at: at, resent_by: who, resent_why: why }) {
  if (resends === 0) return null;
  return el("p", { class: "note" }, `Sent again ${times(resends)}, last `, ago(at), ` by ${who}: ${why}`);
}

function discarded({ discarded_at: at, discarded_by: who, discarded_why: why }) {
  return at ? el("p", { class: "note" }, "Discarded ", ago(at), ` by ${who}: ${why}`) : null;
}
