// What is asked of somebody whom the interface does not know: a function key, or to sign in.

import { el } from "./elements.js";
import { keep, key } from "./key.js";

const OURS = "application/problem+json";

let asking = null;

// Asks until there is an answer to `refusal` (401); whoever asks meanwhile waits for the same one.
// The platform refuses who has no key. Our own application does so where people sign in instead.
export function askWho(refusal) {
  const ours = refusal.headers.get("Content-Type")?.startsWith(OURS);
  asking ??= (ours ? signIn() : functionKey()).finally(() => (asking = null));
  return asking;
}

function functionKey() {
  const input = el("input", { type: "password", autocomplete: "off", required: true, id: "key" });
  return asked("Function key", [
    key() === null ? null : el("p", { class: "warning", role: "alert" }, "The key given so far was not accepted."),
    el("p", {}, "The operators’ interface asks for its function key. It is kept in this tab only."),
    el("label", { for: "key" }, "Key"),
    input,
    el("p", { class: "buttons" }, el("button", { class: "primary" }, "Go on")),
  ]).then(() => keep(input.value));
}

function signIn() {
  const back = encodeURIComponent(location.pathname + location.hash);
  const address = `/.auth/login/aad?post_login_redirect_uri=${back}`;
  return asked("Sign in", [
    el("p", {}, "You are not signed in, or not any more."),
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
