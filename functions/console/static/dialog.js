// A question before something is done: what follows, the reason for it, and what became of it.

import * as api from "./api.js";
import { el, focusAgain, replace } from "./elements.js";

// Who goes to another view, as by the browser's own button, has left the question behind.
export function closeDialog() {
  document.querySelector("dialog.action")?.close();
}

// `content` tells what follows. `input`, if any, stands before the reason: its `content`, the `field` that gets
// the focus, and `read()`, which gives what was written there or throws an `Error` that says what is wrong, and
// perhaps in which `field` of several.
// `act(reason, value)` does it; `done(given)` is told the answer; `acted()` is called whatever came of it.
export function ask({ title, verb, content, input = null, act, done, acted }) {
  const opener = document.activeElement;
  const reason = el("textarea", { id: "reason", required: true, maxlength: 500, rows: 3 });
  const answer = el("div", { id: "dialog-answer", class: "answer", role: "alert" });
  const go = el("button", { class: "primary" }, verb);
  const close = el("button", { type: "button", click: () => dialog.close() }, "Close");
  const closed = () => {
    dialog.remove();
    focusAgain(opener);
  };
  const submit = async (event) => {
    event.preventDefault();
    const value = read(input, answer);
    if (value === undefined) return;
    if (!reason.value.trim()) return reason.focus();
    go.disabled = true;
    const given = await attempt(() => act(reason.value.trim(), value), answer);
    go.disabled = false;
    if (given !== null) dialog.close();
    if (given !== null) done(given);
    acted();
  };
  const dialog = el(
    "dialog",
    { class: "action", "aria-labelledby": "dialog-title", close: closed },
    el(
      "form",
      { submit },
      el("h2", { id: "dialog-title" }, title),
      el("div", { class: "prospect" }, content),
      input === null ? null : input.content,
      el("label", { for: "reason" }, "Reason, which is kept as it is: no secrets"),
      reason,
      answer,
      el("p", { class: "buttons" }, go, close),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  (input?.field ?? reason).focus();
}

// Tells what there is no question about.
export function say(title, text = "") {
  const opener = document.activeElement;
  const closed = () => {
    dialog.remove();
    focusAgain(opener);
  };
  const close = el("button", { type: "button", click: () => dialog.close() }, "Close");
  const dialog = el("dialog", { class: "action", "aria-labelledby": "dialog-title", close: closed }, el("h2", { id: "dialog-title" }, title), el("p", {}, text), el("p", { class: "buttons" }, close));
  document.body.append(dialog);
  dialog.showModal();
}

// Gives null without an input, and undefined for what is wrong.
function read(input, answer) {
  if (input === null) return null;
  try {
    const value = input.read();
    document.querySelector("dialog [aria-invalid]")?.removeAttribute("aria-invalid");
    replace(answer);
    return value;
  } catch (error) {
    const field = error.field ?? input.field;
    field.setAttribute("aria-invalid", "true");
    replace(answer, el("strong", {}, "Not sent."), el("p", {}, error.message));
    field.focus();
    return undefined;
  }
}

async function attempt(act, answer) {
  try {
    return await act();
  } catch (error) {
    replace(answer, ...refused(error));
    return null;
  }
}

const CONFLICT = 409;

function refused(error) {
  if (error instanceof api.ApiError) {
    const hint = error.status === CONFLICT ? " Close this, and see how it stands now." : "";
    const faults = error.faults.length > 1 ? el("ul", {}, error.faults.map((fault) => el("li", {}, fault))) : null;
    return [el("strong", {}, "Not done."), faults ?? el("p", {}, error.message, hint)];
  }
  if (!(error instanceof api.UnreachableError)) reportError(error);
  const what = error instanceof api.UnreachableError ? "No answer." : `This page has a fault (${error.message}).`;
  return [el("strong", {}, "Not known."), el("p", {}, what, " It may have been done all the same: look how it stands.")];
}
