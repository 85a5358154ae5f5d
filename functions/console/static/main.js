// The start: takes the key from the address, and shows the view that the address names after `#`.

import * as api from "./api.js";
import { errorsView } from "./errors.js";
import * as freshness from "./freshness.js";
import { listView } from "./list.js";
import { overviewView } from "./overview.js";
import { Polling } from "./polling.js";
import { messageView, rejectedView } from "./rejected.js";
import { takeKeyFromAddress } from "./signin.js";
import { taskView } from "./task.js";

const main = document.getElementById("main");

let polling = null;
let shown = null;

function viewAt(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [page, id] = path.split("/");
  const asked = new URLSearchParams(query);
  if (page === "tasks") return id ? taskView(decoded(id)) : listView(asked);
  if (page === "errors") return errorsView(asked);
  if (page === "rejected") return id ? messageView(decoded(id)) : rejectedView(asked);
  return overviewView(asked);
}

// A truncated address still shows a page, which reports the fault.
function decoded(id) {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}

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
// Without an answer the buttons stay: the interface rejects actions that a caller may not take.
api.me().then(({ roles }) => document.body.classList.toggle("reader", !roles.includes("Operator")), () => {});
