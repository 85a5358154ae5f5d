// The contents of a task: payload, output, and each step's requests and result. A part is read when it is opened.

import * as api from "./api.js";
import { el, replace } from "./elements.js";
import { section } from "./tables.js";

const NOTE = "Secret fields of the workflow’s models are hidden. Requests are shown as they were recorded.";

// `follow(task)` reads open parts again when the task has changed.
export function contents(id) {
  const steps = new Map();
  const list = el("div", {});
  const payload = part("Payload and output", () => api.contents(id), ({ payload: made, output }) => [text("Payload", made), output && text("Output", output)]);
  return {
    element: section("Contents", el("p", { class: "note" }, NOTE), payload.element, list),
    follow(task) {
      for (const { name } of task.steps) {
        if (steps.has(name)) continue;
        steps.set(name, part(`Step ${name}`, () => api.stepContents(id, name), (given) => step(name, given)));
        list.append(steps.get(name).element);
      }
      for (const each of [payload, ...steps.values()]) each.follow(versionOf(task));
    },
  };
}

// A text that differs whenever contents may have changed.
function versionOf({ epoch, run, state, steps }) {
  return JSON.stringify([epoch, run, state, steps.map((step) => [step.state, step.do, step.undo])]);
}

function part(title, read, show) {
  const inside = el("div", { class: "inside" });
  const element = el("details", { toggle: look }, el("summary", {}, title), inside);
  let wanted = null;
  let shown = null;
  let reading = false;

  async function look() {
    if (!element.open || reading || shown === wanted) return;
    reading = true;
    const asked = wanted;
    try {
      const given = await read();
      replace(inside, ...show(given));
      shown = asked;
    } catch (error) {
      replace(inside, el("p", { class: "none" }, `It cannot be read now: ${error.message}`));
    }
    reading = false;
  }

  return {
    element,
    follow(version) {
      wanted = version;
      look();
    },
  };
}

function step(name, { request, earlier_requests: earlier, undo_request: undo, result }) {
  const found = [
    request && text(`Request of ${name}`, request),
    ...earlier.filter(Boolean).map((each, at) => text(`Request ${at + 1} of ${name}, before it was rebuilt`, each)),
    undo && text(`Request of ${name}’s undo`, undo),
    result && text(`Result of ${name}`, result),
  ].filter(Boolean);
  return result ? found : [...found, el("p", { class: "none" }, request ? "No result is recorded." : "No request and no result are recorded.")];
}

function text(name, shown) {
  return el("div", {}, el("h3", {}, name), body(name, shown));
}

function body(name, { text: content, more, why }) {
  if (content === null) return el("p", { class: "none" }, `Not shown: ${why}`);
  return el("div", {}, el("pre", { class: "body", tabindex: 0, "aria-label": name }, content), more ? el("p", { class: "note" }, "Only the beginning is shown.") : null);
}
