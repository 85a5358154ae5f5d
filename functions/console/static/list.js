// The list of tasks: those in `Error` unless others are asked for. What is asked for stands in the address.

import { addressOfErrors, addressOfList, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { bulkButton } from "./bulk.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { filters } from "./filters.js";
import { ago, clock, count, NOTHING } from "./format.js";
import { badge } from "./states.js";
import { unreadable } from "./unreadable.js";

const PAUSE = 5_000;
// A task under way is in one of two states.
const OF_THOSE_UNDER_WAY = ["Pending", "Processing"];

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
  return el("p", { class: "note" }, "Tasks in Error can be seen ", el("a", { href: addressOfErrors({ workflow, version }) }, "by cause"), ".");
}

// All that the filter selects, and not only this page.
function onAll({ cursor, order, ...filter }, look) {
  const named = Object.keys(filter).length ? filter : { state: "Error" };
  return el("p", { class: "buttons" }, bulkButton(named, "Act on all of these…", look));
}

function results(page, asked) {
  const rows = page.tasks.map(line);
  const shown = page.tasks.length
    ? el("ol", { class: "lines", "aria-label": "Tasks" }, el("li", { class: "line head", "aria-hidden": "true" }, head()), rows)
    : el("p", { class: "none" }, nothing(page, asked));
  const more = page.more && page.tasks.length ? el("p", { class: "none" }, `There are more; ${closer(asked)} finds them.`) : null;
  return [shown, more, unreadable(page), looked(page, asked), pager(page, asked)];
}

function nothing(page, asked) {
  if (page.cursor) return "None so far; the list goes on.";
  if (page.more) return `None among those looked at; ${closer(asked)} finds others.`;
  const { cursor, state, ...others } = asked;
  if (!OF_THOSE_UNDER_WAY.includes(state)) return "No such task.";
  return ["No such task. See ", el("a", { href: addressOfList({ ...others, under_way: true }) }, "all under way"), "."];
}

function closer(asked) {
  if (asked.prefix) return "a longer beginning of the id";
  // What ended is read from its newest on: the oldest of very many are beyond that.
  const isRead = asked.parked || asked.under_way || OF_THOSE_UNDER_WAY.includes(asked.state);
  return asked.order === "oldest" && !isRead ? "a greater age" : "the beginning of an id";
}

// What no index tells is looked for in some tasks at a time.
function looked({ looked_to: to }, { order }) {
  if (!to) return null;
  return el("p", { class: "none" }, order === "oldest" ? "Looked from the earliest up to " : "Looked from now back to ", clock(to), ".");
}

function head() {
  return ["Task", "State", "Workflow", "Since", "Epoch", "Last error"].map((name) => el("span", {}, name));
}

function line(task) {
  return el(
    "li",
    { class: "line" },
    el("a", { class: "id", href: addressOfTask(task.id) }, task.id),
    badge(task.parked ? "Parked" : task.state),
    el("span", { class: "workflow" }, `${task.workflow} v${task.workflow_version}`),
    el("span", { class: "since" }, ago(task.finished_at ?? task.submitted_at)),
    el("span", { class: "tries" }, el("span", { class: "unit" }, "epoch "), count(task.epoch)),
    el("span", { class: "error-text" }, task.last_error ?? NOTHING),
  );
}

function pager(page, asked) {
  const { cursor, ...others } = asked;
  const first = cursor ? el("a", { href: addressOfList(others) }, "First page") : null;
  const further = page.tasks.length ? "Next page" : "Look further";
  const next = page.cursor ? el("a", { href: addressOfList({ ...others, cursor: page.cursor }) }, further) : null;
  return first || next ? el("nav", { class: "pager", "aria-label": "Pages" }, first, next) : null;
}
