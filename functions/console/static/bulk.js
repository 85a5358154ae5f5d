// One action on all tasks of a filter: they are counted first; the dialog requires a reason.

import * as api from "./api.js";
import { Run } from "./bulk_run.js";
import { ask, jsonInput, say } from "./dialog.js";
import { el, focusAgain } from "./elements.js";
import { stateOf } from "./filters.js";
import { count } from "./format.js";

// The verb and the consequences of each action, and the fields that it needs besides a reason.
const ACTIONS = {
  resubmit: { verb: "Resubmit", text: "Each task continues where it stopped. Refused steps start again with their recorded requests." },
  undo: { verb: "Undo", text: "Every dispatched step of a task in Error is undone. An undo is final." },
  cancel: { verb: "Cancel", text: "Every dispatched step is undone, in any state of the task. An undo is final." },
  suspend: { verb: "Suspend", text: "No step of a task under way starts until an operator resumes the task." },
  resume: { verb: "Resume", text: "Each task that an operator suspended continues." },
  skip: { verb: "Skip a step of", step: true, content: "result", text: "A failed step counts as done, with the same result for all tasks." },
  done: { verb: "“It was done” for", step: true, content: "result", text: "A step of unknown outcome counts as done, with the same result for all tasks." },
  "not-done": { verb: "“It was not done” for", step: true, text: "A step of unknown outcome starts again." },
  rebuild: { verb: "Rebuild the request of", step: true, text: "The deployed code makes the request of a refused step again, and the task is resubmitted." },
  undone: { verb: "“Undone by hand” for", step: true, text: "The undo of a step counts as done. Undos that it blocked continue." },
  leave: { verb: "“Leave it” for", step: true, text: "The effect of a step stays. Undos that it blocked continue." },
  event: { verb: "Send an event to", step: true, content: "body", text: "The same event is sent to a step of all tasks." },
};
// The actions that tasks of a state may accept. A list of any state offers all.
const ACCEPTED = {
  Error: ["resubmit", "undo", "skip", "done", "not-done", "rebuild", "undone", "leave", "event"],
  Suspended: ["resume", "suspend", "cancel", "event"],
  Pending: ["suspend", "resume", "cancel", "event"],
  Processing: ["suspend", "cancel", "event"],
  "Under way": ["suspend", "cancel", "event"],
  Processed: ["cancel"],
  Compensated: [],
};
const USUAL = { "": "resubmit", Error: "resubmit", Suspended: "resume" };
const CONTENTS = { result: "Result of the step (JSON)", body: "Event of the step (JSON)" };
const STEP = "[a-z][a-z0-9\\-]{0,31}([.][0-9]{1,2})?";

// Returns null if no action applies. `acted()` is called when tasks may have changed.
export function bulkButton(filter, text, acted, name = text) {
  if (ACCEPTED[stateOf(filter)]?.length === 0) return null;
  const button = el("button", { class: "act", "aria-label": name, click: () => open(filter, button, acted) }, text);
  return button;
}

async function open(filter, button, acted) {
  const view = location.hash;
  button.disabled = true;
  const counted = await attempt(() => api.counted(filter));
  button.disabled = false;
  if (location.hash !== view) return; // another view was opened meanwhile
  focusAgain(button);
  if (counted.count === 0 && !counted.more) say("No tasks match.");
  else if (counted.fault) say("The tasks cannot be counted now.", counted.fault);
  else question(filter, counted, button, acted);
}

async function attempt(read) {
  try {
    return await read();
  } catch (error) {
    return { fault: error.message };
  }
}

function question(filter, counted, button, acted) {
  const input = choice(filter, counted);
  ask({
    title: input.title,
    verb: input.verb,
    content: selected(counted),
    input,
    act: async (reason, chosen) => ({ filter, before: counted.at, reason, ...chosen }),
    done: (request) => new Run(`${ACTIONS[request.action].verb} ${many(counted)}`, request, counted, { opener: button, acted }).start(),
    acted() {},
  });
}

function selected({ more, exact }) {
  return [
    el("p", {}, "Tasks that ended, were submitted or began another epoch after this count are left out."),
    more ? el("p", {}, "There are more tasks than were counted. The action reaches all of them.") : null,
    exact ? null : el("p", {}, "The index does not cover the whole filter. Each task is read first, and some may not match."),
  ];
}

function many({ count: number, more, exact }) {
  const tasks = number === 1 && !more ? "1 task" : `${count(number)} tasks`;
  if (more) return `at least ${tasks}`;
  return exact ? tasks : `up to ${tasks}`;
}

// Without a usual action, none is selected.
function options(filter, counted) {
  const state = stateOf(filter);
  const names = ACCEPTED[state] ?? Object.keys(ACTIONS);
  const none = USUAL[state] ? [] : [el("option", { value: "", selected: true }, "Choose…")];
  return [...none, ...names.map((name) => el("option", { value: name, selected: name === USUAL[state] }, `${ACTIONS[name].verb} ${many(counted)}`))];
}

// The fields of the selected action.
function choice(filter, counted) {
  const title = el("span", {});
  const verb = el("span", {});
  const more = el("div", { class: "preview" });
  let read;
  const show = () => {
    const action = ACTIONS[field.value] ?? { verb: "Act on", text: null };
    title.textContent = `${action.verb} ${many(counted)}?`;
    verb.textContent = `${action.verb} ${many(counted)}`;
    const step = action.step ? el("input", { id: "step", value: filter.step ?? "", required: true, pattern: STEP, autocomplete: "off" }) : null;
    const json = action.content ? jsonInput(CONTENTS[action.content]) : null;
    more.replaceChildren(...[action.text && el("p", {}, action.text), step && el("label", { for: "step" }, "Step"), step, ...(json?.content ?? [])].filter(Boolean));
    read = () => ({ action: field.value, ...(step && { step: step.value }), ...(json && { [action.content]: json.read() }) });
  };
  const field = el("select", { id: "action", required: true, change: show }, options(filter, counted));
  show();
  return { title, verb, content: [el("label", { for: "action" }, "Action"), field, more], field, read: () => read() };
}
