// Tasks in `Error`, grouped by cause: the count, the time and the list of each group.

import { addressOfErrors, addressOfList, addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { bulkButton } from "./bulk.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { ago, clock, count } from "./format.js";
import { corruptRows, section } from "./tables.js";

const PAUSE = 5_000;

export function errorsView(query) {
  const asked = Object.fromEntries(query);
  const place = el("div", { class: "errors" });
  let again;
  return {
    title: "Errors by cause",
    page: "tasks",
    open(look) {
      again = look;
      return [el("h1", {}, "Errors by cause"), place];
    },
    close: closeDialog,
    read: (signal) => api.errors(asked, signal),
    show(answer) {
      replace(place, ...content(answer, asked, again));
      return PAUSE;
    },
  };
}

function content(answer, asked, again) {
  const groups = answer.groups.map((group) => line(group, again));
  return [
    el("p", { class: "note" }, "The errors of a group differ only in numbers, ids and quoted texts. Each group links to its tasks."),
    section(
      asked.workflow ?? "All workflows",
      groups.length ? el("ol", { class: "lines", "aria-label": "Causes" }, groups) : el("p", { class: "none" }, "No tasks are in Error."),
    ),
    corruptRows(answer.corrupt),
    further(answer, asked),
  ];
}

function line(group, again) {
  const { workflow, version, step, error, count: number, first_at: first, last_at: last, example } = group;
  return el(
    "li",
    { class: "message" },
    el("strong", {}, el("a", { href: addressOfList(group.filter) }, `${count(number)} × ${error}`)),
    bulkButton(group.filter, "Act on all…", again, `Act on all of ${error} (${workflow} v${version})…`),
    el("p", { class: "note" }, `${workflow} v${version}`, step && ` · step ${step}`, " · since ", clock(first), " · last ", ago(last), " · for example ", el("a", { href: addressOfTask(example) }, example)),
  );
}

function further({ looked_to: to }, { before, ...others }) {
  if (!to && !before) return null;
  return [
    to ? el("p", { class: "none" }, "Searched back to ", clock(to), ".") : null,
    el(
      "nav",
      { class: "pager", "aria-label": "Pages" },
      before ? el("a", { href: addressOfErrors(others) }, "First page") : null,
      to ? el("a", { href: addressOfErrors({ ...others, before: to }) }, "Search further") : null,
    ),
  ];
}
