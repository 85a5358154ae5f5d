// The dialog of an action: its consequences, its reason, and its outcome; and the field for JSON.

import * as api from "./api.js";
import { el, focusAgain, replace } from "./elements.js";

// A view closes its dialog when another view is opened.
export function closeDialog() {
  document.querySelector("dialog.action")?.close();
}

// `content` describes the consequences. `input`, if any, has its `content`, the `field` for the focus, and
// `read()`, which returns the value or throws an `Error` with the wrong `field`. `act(reason, value)` sends the
// request, `done(answer)` shows its answer, and `acted()` is called after each attempt.
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
      el("div", { class: "preview" }, content),
      input === null ? null : input.content,
      el("label", { for: "reason" }, "Reason (it is recorded: no secrets)"),
      reason,
      answer,
      el("p", { class: "buttons" }, go, close),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
  (input?.field ?? reason).focus();
}

// Shows a message.
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

// Returns null without an input, and undefined for a wrong value.
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
    replace(answer, ...failure(error));
    return null;
  }
}

const CONFLICT = 409;

function failure(error) {
  if (error instanceof api.ApiError) {
    const hint = error.status === CONFLICT ? " Close the dialog and check the current state." : "";
    const faults = error.faults.length > 1 ? el("ul", {}, error.faults.map((fault) => el("li", {}, fault))) : null;
    return [el("strong", {}, "Not done."), faults ?? el("p", {}, error.message, hint)];
  }
  if (!(error instanceof api.UnreachableError)) reportError(error);
  const what = error instanceof api.UnreachableError ? "The interface did not answer." : `This page has an error (${error.message}).`;
  return [el("strong", {}, "Outcome unknown."), el("p", {}, what, " The action may have taken effect: check the current state.")];
}

// A field for a JSON object. Its numbers are sent as they were written.
export function jsonInput(label) {
  const field = el("textarea", { id: "content", rows: 4, class: "code", spellcheck: "false", autocomplete: "off" });
  field.value = "{}";
  return { content: [el("label", { for: field.id }, label), field], field, read: () => parsed(field) };
}

function parsed(field) {
  let content;
  try {
    content = JSON.parse(field.value, asWritten);
  } catch (error) {
    throw wrong(field, `This is not JSON: ${error.message}`);
  }
  if (typeof content !== "object" || content === null || Array.isArray(content) || JSON.isRawJSON(content)) {
    throw wrong(field, "This must be a JSON object, such as {\"receipt\": \"R-1\"}.");
  }
  return content;
}

// JavaScript would round numbers of more than 16 digits.
function asWritten(_name, value, { source }) {
  return typeof value === "number" ? JSON.rawJSON(source) : value;
}

function wrong(field, text) {
  return Object.assign(new Error(text), { field });
}
