// Finds the view that an address names: the part behind `#`, so that the server sees none of it.

import { errorsView } from "./errors.js";
import { overviewView } from "./overview.js";
import { listView } from "./list.js";
import { messageView, rejectedView } from "./rejected.js";
import { taskView } from "./task.js";

export function viewAt(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [page, id] = path.split("/");
  if (page === "tasks" && id) return taskView(decoded(id));
  if (page === "tasks") return listView(new URLSearchParams(query));
  if (page === "errors") return errorsView(new URLSearchParams(query));
  if (page === "rejected" && id) return messageView(decoded(id));
  if (page === "rejected") return rejectedView(new URLSearchParams(query));
  return overviewView(new URLSearchParams(query));
}

// An address that was cut short somewhere still leads to a page, which says what is wrong with it.
function decoded(id) {
  try {
    return decodeURIComponent(id);
  } catch {
    return id;
  }
}
