// Begins: takes the key out of the address, shows the view that the address names, and reads the caller's roles.

import * as api from "./api.js";
import * as freshness from "./freshness.js";
import { takeKeyFromAddress } from "./key.js";
import { Polling } from "./polling.js";
import { viewAt } from "./router.js";

const main = document.getElementById("main");

let polling = null;
let shown = null;

function show() {
  const first = shown === null;
  polling?.stop();
  shown?.close?.();
  freshness.loading();
  const view = (shown = viewAt(location.hash));
  polling = new Polling(view.read, view.show);
  document.title = `${view.title} · Operations`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === view.page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  main.replaceChildren(...view.open(() => polling.again()), freshness.unread);
  if (!first) main.focus({ preventScroll: true });
  scrollTo(0, 0);
  polling.start();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the part behind `#` names the view
  main.focus();
});
takeKeyFromAddress();
addEventListener("hashchange", show);
show();
// Without an answer the buttons stay: the interface itself refuses what a caller may not do.
api.me().then(({ roles }) => document.body.classList.toggle("reader", !roles.includes("Operator")), () => {});
