// The list of tasks: those in `Error` unless others are asked for. What is asked for stands in the address.

import { addressOfList, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { el, replace } from "./elements.js";
import { filters } from "./filters.js";
import { ago, count, NOTHING } from "./format.js";
import { badge } from "./states.js";

const PAUSE = 5_000;

export function listView(query) {
  const asked = Object.fromEntries(query);
  const place = el("div", { class: "tasks" });
  return {
    title: "Tasks",
    page: "tasks",
    open: () => [el("h1", {}, "Tasks"), filters(asked), place],
    read: (signal) => api.tasks(asked, signal),
    show(page) {
      replace(place, ...results(page, asked));
      return PAUSE;
    },
  };
}

function results(page, asked) {
  const rows = page.tasks.map(line);
  const shown = page.tasks.length
    ? el("ol", { class: "lines", "aria-label": "Tasks" }, el("li", { class: "line head", "aria-hidden": "true" }, head()), rows)
    : el("p", { class: "none" }, page.cursor ? "None here; the list goes on." : "No such task.");
  const more = page.more ? el("p", { class: "none" }, "There are more; a longer beginning of the id finds them.") : null;
  return [shown, more, pager(page, asked)];
}

function head() {
  return ["Task", "State", "Workflow", "Since", "Epoch", "Last error"].map((name) => el("span", {}, name));
}

function line(task) {
  return el(
    "li",
    { class: "line" },
    el("a", { class: "id", href: addressOfTask(task.id) }, task.id),
    badge(task.state),
    el("span", { class: "workflow" }, task.workflow),
    el("span", { class: "since" }, ago(task.finished_at ?? task.submitted_at)),
    el("span", { class: "tries" }, el("span", { class: "unit" }, "epoch "), count(task.epoch)),
    el("span", { class: "error-text" }, task.last_error ?? NOTHING),
  );
}

function pager(page, asked) {
  const { cursor, ...others } = asked;
  const first = cursor ? el("a", { href: addressOfList(others) }, "First page") : null;
  const next = page.cursor ? el("a", { href: addressOfList({ ...others, cursor: page.cursor }) }, "Next page") : null;
  return first || next ? el("nav", { class: "pager", "aria-label": "Pages" }, first, next) : null;
}
