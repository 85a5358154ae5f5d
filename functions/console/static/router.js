// Finds the view that an address names: the part behind `#`, so that the server sees none of it.

import { overviewView } from "./overview.js";
import { listView } from "./list.js";
import { taskView } from "./task.js";

export function viewAt(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [page, id] = path.split("/");
  if (page === "tasks" && id) return taskView(decodeURIComponent(id));
  if (page === "tasks") return listView(new URLSearchParams(query));
  return overviewView();
}
