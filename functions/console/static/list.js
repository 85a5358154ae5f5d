// The list of tasks, by default those in `Error`. The filter is in the address.

import { addressOfErrors, addressOfList, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { bulkButton } from "./bulk.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { filters } from "./filters.js";
import { ago, clock, count, NOTHING } from "./format.js";
import { taskBadge } from "./states.js";
import { corruptRows } from "./tables.js";

const PAUSE = 5_000;
// The states of tasks under way.
const UNDER_WAY = ["Pending", "Processing"];

export function listView(query) {
  const asked = Object.fromEntries(query);
  const place = el("div", { class: "tasks" });
  return {
    title: "Tasks",
    page: "tasks",
    open: (look) => [el("h1", {}, "Tasks"), filters(asked), byCause(asked), onAll(asked, look), place],
    close: closeDialog,
    read: (signal) => api.tasks(asked, signal),
    show(page) {
      replace(place, ...results(page, asked));
      return PAUSE;
    },
  };
}

function byCause({ workflow, version }) {
  return el("p", { class: "note" }, "Group the tasks in Error ", el("a", { href: addressOfErrors({ workflow, version }) }, "by cause"), ".");
}

// Acts on all tasks of the filter, also on other pages.
function onAll({ cursor, order, ...filter }, look) {
  const named = Object.keys(filter).length ? filter : { state: "Error" };
  return el("p", { class: "buttons" }, bulkButton(named, "Act on all of these…", look));
}

function results(page, asked) {
  const rows = page.tasks.map(line);
  const shown = page.tasks.length
    ? el("ol", { class: "lines", "aria-label": "Tasks" }, el("li", { class: "line head", "aria-hidden": "true" }, head()), rows)
    : el("p", { class: "none" }, nothing(page, asked));
  const more = page.more && page.tasks.length ? el("p", { class: "none" }, "There are more tasks; another age finds them.") : null;
  return [shown, more, corruptRows(page.corrupt), looked(page, asked), pager(page, asked)];
}

function nothing(page, asked) {
  if (page.cursor) return "No task matches so far; the search continues.";
  if (page.more) return "No task matches among the first ones; another age finds others.";
  const { cursor, state, ...others } = asked;
  if (!UNDER_WAY.includes(state)) return "No tasks match.";
  return ["No tasks match. See ", el("a", { href: addressOfList({ ...others, under_way: true }) }, "all tasks under way"), "."];
}

// A search without an index reads some tasks at a time.
function looked({ looked_to: to }, { order }) {
  if (!to) return null;
  return el("p", { class: "none" }, order === "oldest" ? "Searched from the oldest task to " : "Searched from now back to ", clock(to), ".");
}

function head() {
  return ["Task", "State", "Workflow", "Since", "Epoch", "Reason"].map((name) => el("span", {}, name));
}

function line(task) {
  return el(
    "li",
    { class: "line" },
    el("a", { class: "id", href: addressOfTask(task.id) }, task.id),
    taskBadge(task),
    el("span", { class: "workflow" }, `${task.workflow} v${task.workflow_version}`),
    el("span", { class: "since" }, ago(task.finished_at ?? task.submitted_at)),
    el("span", { class: "tries" }, el("span", { class: "unit" }, "epoch "), count(task.epoch)),
    el("span", { class: "error-text" }, task.reason ?? NOTHING),
  );
}

function pager(page, asked) {
  const { cursor, ...others } = asked;
  const first = cursor ? el("a", { href: addressOfList(others) }, "First page") : null;
  const further = page.tasks.length ? "Next page" : "Search further";
  const next = page.cursor ? el("a", { href: addressOfList({ ...others, cursor: page.cursor }) }, further) : null;
  return first || next ? el("nav", { class: "pager", "aria-label": "Pages" }, first, next) : null;
}
