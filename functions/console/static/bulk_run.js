// Carries an action out on all that a filter selects, and shows how far it is, and what came of it.

import { addressOfTask } from "./addresses.js";
import * as api from "./api.js";
import { el, focusAgain, replace } from "./elements.js";
import { count } from "./format.js";
import { announce } from "./freshness.js";

const MOST_SHOWN = 25;

export class Run {
  #wish;
  #expected;
  #opener;
  #acted;
  #done = [];
  #refused = new Map();
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

  // The `opener` gets the focus back; `acted()` is called when tasks may have changed.
  constructor(title, wish, expected, { opener, acted }) {
    this.#wish = wish;
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
    this.#goOn();
  }

  get #isRunning() {
    return this.#close.hidden;
  }

  #press() {
    if (this.#isRunning) this.#stopped = true;
    else this.#goOn();
  }

  // What runs is stopped first, so that what came of it can be seen.
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

  async #goOn() {
    this.#stopped = false;
    this.#close.hidden = true;
    this.#button.hidden = false;
    this.#button.textContent = "Stop";
    replace(this.#answer);
    this.#show();
    while (!this.#stopped) {
      try {
        this.#take(await api.actOnSome({ ...this.#wish, cursor: this.#cursor }));
      } catch (error) {
        this.#interrupted(error);
        return;
      }
      if (this.#cursor === null) {
        this.#finished();
        return;
      }
    }
    this.#rest(["Stopped.", "Nothing is lost: go on when you want to, or count again later."]);
  }

  #take({ done, refused, passed_over: passed, cursor }) {
    this.#done.push(...done.map(({ id }) => id));
    for (const { id, reason } of refused) this.#refused.set(reason, [...(this.#refused.get(reason) ?? []), id]);
    this.#seen += done.length + refused.length + passed;
    this.#cursor = cursor;
    this.#show();
  }

  #interrupted(error) {
    if (this.#closed) return;
    this.#lost = true;
    const known = error instanceof api.ApiError || error instanceof api.UnreachableError;
    if (!known) reportError(error);
    const why = known ? error.message : `this page has a fault (${error.message})`;
    this.#rest([`Interrupted: ${why}.`, "What was asked for last may have been done all the same. To go on does no harm: no task is acted on twice."]);
  }

  #rest([what, told]) {
    replace(this.#answer, el("strong", {}, what), el("p", {}, told));
    this.#button.textContent = "Go on";
    this.#close.hidden = false;
  }

  #finished() {
    this.#button.hidden = true;
    this.#close.hidden = false;
    this.#progress.value = this.#progress.max;
    const rest = this.#expected.count - this.#seen;
    const gone = rest > 0 && this.#expected.exact ? ` ${count(rest)} had gone on before${this.#lost ? ", some by what was not answered" : ""}.` : "";
    replace(this.#answer, el("strong", {}, "Finished."), el("p", {}, `${this.#told()}.${gone}`));
    announce(`Finished: ${this.#told()}.`);
    this.#close.focus();
  }

  #told() {
    return `${count(this.#done.length)} done, ${count(this.#refusals)} refused`;
  }

  get #refusals() {
    return [...this.#refused.values()].reduce((sum, ids) => sum + ids.length, 0);
  }

  #show() {
    const expected = Math.max(this.#expected.count, this.#seen, 1);
    this.#progress.max = expected;
    this.#progress.value = this.#seen;
    this.#figures.textContent = `${count(this.#seen)} of ${this.#expected.more ? "at least " : ""}${count(Math.max(this.#expected.count, this.#seen))}: ${this.#told()}`;
    const refused = [...this.#refused].map(([reason, ids]) => list(`${count(ids.length)} refused: ${reason}`, ids, true));
    replace(this.#results, ...refused, this.#done.length ? list(`${count(this.#done.length)} done`, this.#done, false) : null);
  }
}

// The latest of them; all stand in their own histories.
function list(title, ids, open) {
  const shown = ids.slice(-MOST_SHOWN).reverse();
  const others = ids.length - shown.length;
  return el(
    "details",
    { open },
    el("summary", {}, title),
    el("p", { class: "ids" }, shown.map((id) => [el("a", { href: addressOfTask(id) }, id), " "]), others > 0 ? `and ${count(others)} before` : null),
  );
}
