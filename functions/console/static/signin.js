// The caller's credentials: the function key, which is kept in this tab, or a sign-in.

import { el } from "./elements.js";

const STORAGE_NAME = "operators-function-key";
// The characters of a header. A key with others is not sent, so that the interface rejects it.
const SENDABLE = /^[ -~]+$/;
const PROBLEM = "application/problem+json";

let asking = null;

export function keyHeaders() {
  const key = sessionStorage.getItem(STORAGE_NAME);
  return key !== null && SENDABLE.test(key) ? { "x-functions-key": key } : {};
}

// Removes `?code=…` from the address, so that no bookmark, history or screenshot contains the key.
export function takeKeyFromAddress() {
  const key = new URLSearchParams(location.search).get("code");
  if (key === null) return;
  sessionStorage.setItem(STORAGE_NAME, key);
  history.replaceState(null, "", location.pathname + location.hash);
}

// Asks after a response 401; further requests wait for the same answer. The platform rejects a missing key;
// the application itself returns a problem if sign-in is configured.
export function askWho(response) {
  const isSignIn = response.headers.get("Content-Type")?.startsWith(PROBLEM);
  asking ??= (isSignIn ? signIn() : functionKey()).finally(() => (asking = null));
  return asking;
}

function functionKey() {
  const input = el("input", { type: "password", autocomplete: "off", required: true, id: "key" });
  return asked("Function key", [
    sessionStorage.getItem(STORAGE_NAME) === null ? null : el("p", { class: "warning", role: "alert" }, "The key was not accepted."),
    el("p", {}, "The operators’ interface requires its function key. It is kept in this tab only."),
    el("label", { for: "key" }, "Key"),
    input,
    el("p", { class: "buttons" }, el("button", { class: "primary" }, "Continue")),
  ]).then(() => sessionStorage.setItem(STORAGE_NAME, input.value));
}

function signIn() {
  const back = encodeURIComponent(location.pathname + location.hash);
  const address = `/.auth/login/aad?post_login_redirect_uri=${back}`;
  return asked("Sign in", [
    el("p", {}, "You are not signed in, or the sign-in has expired."),
    el("p", { class: "buttons" }, el("a", { class: "primary", href: address }, "Sign in"), el("button", {}, "Try again")),
  ]);
}

function asked(title, content) {
  return new Promise((resolve) => {
    const submit = (event) => { event.preventDefault(); dialog.close(); };
    const form = el("form", { submit }, el("h2", { id: "who-title" }, title), content);
    const dialog = el("dialog", { "aria-labelledby": "who-title", cancel: (event) => event.preventDefault() }, form);
    dialog.addEventListener("close", () => { dialog.remove(); resolve(); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
