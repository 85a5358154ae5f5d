// What a task holds: its payload, and each step's request and result. It is read when somebody opens it.

import * as api from "./api.js";
import { el, replace } from "./elements.js";
import { section } from "./tables.js";

const NOTE = "Fields that the workflow’s model marks as secret are hidden. Requests are made anew, as the definition that is deployed here makes them.";

// `follow(task)` is told how the task stands: what is open is read again when it has changed.
export function contents(id) {
  const steps = new Map();
  const list = el("div", {});
  const payload = part("Payload", () => api.contents(id), (given) => [body("Payload", given.payload)]);
  return {
    element: section("Payload, requests and results", el("p", { class: "note" }, NOTE), payload.element, list),
    follow(task) {
      for (const { name } of task.steps) {
        if (steps.has(name)) continue;
        steps.set(name, part(`Step ${name}`, () => api.stepContents(id, name), (given) => step(name, given)));
        list.append(steps.get(name).element);
      }
      for (const each of [payload, ...steps.values()]) each.follow(task.updated_at);
    },
  };
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
      replace(inside, el("p", { class: "none" }, `It can’t be read now: ${error.message}`));
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

function step(name, { request, undo_request: undo, result }) {
  const found = [
    request && text(`Request of ${name}`, request),
    undo && text(`Request of ${name}’s undo`, undo),
    result && text(`Result of ${name}`, result),
  ].filter(Boolean);
  const missing = result ? null : el("p", { class: "none" }, request ? "No result is recorded." : "It has no request, and no result is recorded.");
  return [...found, missing];
}

function text(name, shown) {
  return el("div", {}, el("h3", {}, name), body(name, shown));
}

function body(name, { text: content, more, why }) {
  if (content === null) return el("p", { class: "none" }, `Not shown: ${why}`);
  return el("div", {}, el("pre", { class: "body", tabindex: 0, "aria-label": name }, content), more ? el("p", { class: "note" }, "Only its beginning is shown.") : null);
}
