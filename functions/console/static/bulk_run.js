// Runs an action on all tasks of a filter, page by page, and shows its progress and its outcomes.

import { addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { el, focusAgain, replace } from "./elements.js";
import { count } from "./format.js";
import { announce } from "./freshness.js";
import { corruptRows } from "./tables.js";

const MOST_SHOWN = 25;

export class Run {
  #request;
  #expected;
  #opener;
  #acted;
  #done = [];
  #rejected = new Map();
  #corrupt = [];
  #seen = 0;
  #cursor = null;
  #stopped = false;
  #closed = false;
  #lost = false;
  #dialog;
  #progress = el("progress", { "aria-label": "Tasks", max: 1, value: 0 });
  #figures = el("p", {});
  #answer = el("div", { class: "answer", role: "alert" });
  #results = el("div", { class: "results" });
  #button = el("button", { type: "button", click: () => this.#press() }, "Stop");
  #close = el("button", { type: "button", hidden: true, click: () => this.#dialog.close() }, "Close");

  // The focus returns to the `opener`; `acted()` is called when tasks may have changed.
  constructor(title, request, expected, { opener, acted }) {
    this.#request = request;
    this.#expected = expected;
    this.#opener = opener;
    this.#acted = acted;
    const heading = el("h2", { id: "run-title" }, title);
    const content = el("div", { class: "run" }, heading, this.#progress, this.#figures, this.#answer, el("p", { class: "buttons" }, this.#button, this.#close), this.#results);
    this.#dialog = el("dialog", { class: "action", "aria-labelledby": "run-title", close: () => this.#left(), cancel: (event) => this.#escape(event) }, content);
  }

  start() {
    document.body.append(this.#dialog);
    this.#dialog.showModal();
    this.#button.focus();
    this.#continue();
  }

  get #isRunning() {
    return this.#close.hidden;
  }

  #press() {
    if (this.#isRunning) this.#stopped = true;
    else this.#continue();
  }

  // Escape stops a run; its outcomes stay visible.
  #escape(event) {
    if (!this.#isRunning) return;
    event.preventDefault();
    this.#stopped = true;
  }

  #left() {
    this.#stopped = this.#closed = true;
    this.#dialog.remove();
    focusAgain(this.#opener);
    this.#acted();
  }

  async #continue() {
    this.#stopped = false;
    this.#close.hidden = true;
    this.#button.hidden = false;
    this.#button.textContent = "Stop";
    replace(this.#answer);
    this.#show();
    while (!this.#stopped) {
      try {
        this.#record(await api.actOnSome({ ...this.#request, cursor: this.#cursor }));
      } catch (error) {
        this.#interrupted(error);
        return;
      }
      if (this.#cursor === null) {
        this.#finished();
        return;
      }
    }
    this.#rest(["Stopped.", "Continue the action, or count again later."]);
  }

  #record({ done, rejected, passed_over: passed, corrupt, cursor }) {
    this.#done.push(...done.map(({ id }) => id));
    for (const { id, reason } of rejected) this.#rejected.set(reason, [...(this.#rejected.get(reason) ?? []), id]);
    this.#corrupt.push(...corrupt);
    this.#seen += done.length + rejected.length + corrupt.length + passed;
    this.#cursor = cursor;
    this.#show();
  }

  #interrupted(error) {
    if (this.#closed) return;
    this.#lost = true;
    const known = error instanceof api.ApiError || error instanceof api.UnreachableError;
    if (!known) reportError(error);
    const why = known ? error.message : `this page has an error (${error.message})`;
    this.#rest([`Interrupted: ${why}.`, "The last request may have taken effect. Continue: no task is changed twice."]);
  }

  #rest([title, text]) {
    replace(this.#answer, el("strong", {}, title), el("p", {}, text));
    this.#button.textContent = "Continue";
    this.#close.hidden = false;
  }

  #finished() {
    this.#button.hidden = true;
    this.#close.hidden = false;
    this.#progress.value = this.#progress.max;
    const rest = this.#expected.count - this.#seen;
    const gone = rest > 0 && this.#expected.exact ? ` ${count(rest)} had changed before${this.#lost ? ", some by the request without an answer" : ""}.` : "";
    replace(this.#answer, el("strong", {}, "Finished."), el("p", {}, `${this.#summary()}.${gone}`));
    announce(`Finished: ${this.#summary()}.`);
    this.#close.focus();
  }

  #summary() {
    return `${count(this.#done.length)} done, ${count(this.#rejections)} rejected`;
  }

  get #rejections() {
    return [...this.#rejected.values()].reduce((sum, ids) => sum + ids.length, 0);
  }

  #show() {
    const expected = Math.max(this.#expected.count, this.#seen, 1);
    this.#progress.max = expected;
    this.#progress.value = this.#seen;
    this.#figures.textContent = `${count(this.#seen)} of ${this.#expected.more ? "at least " : ""}${count(Math.max(this.#expected.count, this.#seen))}: ${this.#summary()}`;
    const rejected = [...this.#rejected].map(([reason, ids]) => list(`${count(ids.length)} rejected: ${reason}`, ids, true));
    replace(this.#results, ...rejected, this.#done.length ? list(`${count(this.#done.length)} done`, this.#done, false) : null, corruptRows(this.#corrupt));
  }
}

// The newest tasks; each one's history has the action.
function list(title, ids, open) {
  const shown = ids.slice(-MOST_SHOWN).reverse();
  const others = ids.length - shown.length;
  return el(
    "details",
    { open },
    el("summary", {}, title),
    el("p", { class: "ids" }, shown.map((id) => [el("a", { href: addressOfTask(id) }, id), " "]), others > 0 ? `and ${count(others)} others` : null),
  );
}
