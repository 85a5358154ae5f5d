// Reads a view's data periodically: less often while the interface does not answer, never in a hidden tab.

import * as freshness from "./freshness.js";

const MOST_MILLISECONDS = 60_000;
const WHILE_SELECTING = 1_000;

export class Polling {
  #read;
  #show;
  #failures = 0;
  #timer = null;
  #running = null;
  #stopped = false;
  #seen = () => this.#look();

  // `read(signal)` returns the data of `show(data)`, which returns the milliseconds until the next read.
  constructor(read, show) {
    this.#read = read;
    this.#show = show;
  }

  start() {
    document.addEventListener("visibilitychange", this.#seen);
    this.#look();
  }

  stop() {
    this.#stopped = true;
    document.removeEventListener("visibilitychange", this.#seen);
    this.#rest();
  }

  // Reads now, as after an action.
  again() {
    this.#failures = 0;
    this.#look();
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#running?.abort();
  }

  async #look() {
    this.#rest();
    if (this.#stopped || document.hidden) return;
    if (isSelecting()) {
      this.#timer = setTimeout(() => this.#look(), WHILE_SELECTING);
      return;
    }
    const running = (this.#running = new AbortController());
    let pause;
    try {
      const data = await this.#read(running.signal);
      if (running.signal.aborted) return;
      pause = this.#show(data);
      this.#failures = 0;
      freshness.updated();
    } catch (error) {
      if (running.signal.aborted) return;
      this.#failures += 1;
      pause = Math.min(MOST_MILLISECONDS, 2_000 * 2 ** this.#failures);
      freshness.failed(error, pause);
    }
    if (!this.#stopped) this.#timer = setTimeout(() => this.#look(), pause);
  }
}

// New data would remove a selected text.
function isSelecting() {
  return getSelection()?.type === "Range";
}
