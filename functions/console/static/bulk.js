// One action on all tasks that a filter selects: counted first, asked for with a reason, then carried out.

import * as api from "./api.js";
import { Run } from "./bulk_run.js";
import { ask, say } from "./dialog.js";
import { el, focusAgain } from "./elements.js";
import { stateOf } from "./filters.js";
import { count } from "./format.js";
import { jsonInput } from "./json_input.js";

// What each is called, and what it needs besides a reason.
const ACTIONS = {
  resubmit: { verb: "Resubmit", follows: "Each runs again from where it stopped." },
  undo: { verb: "Undo", follows: "Everything that was dispatched of a task in Error is undone. An undo is final." },
  cancel: { verb: "Cancel", follows: "Everything that was dispatched is undone, in any state. An undo is final." },
  park: { verb: "Park", follows: "Nothing of a task that is under way runs until somebody unparks it." },
  unpark: { verb: "Unpark", follows: "Each goes on that an operator has parked." },
  skip: { verb: "Skip a step of", step: true, content: "result", follows: "A step that failed counts as done, with the same result for all." },
  done: { verb: "“It was done” for", step: true, content: "result", follows: "A step of unknown outcome counts as done, with the same result for all." },
  "not-done": { verb: "“It was not done” for", step: true, follows: "A step of unknown outcome runs once more." },
  event: { verb: "Tell a step of", step: true, content: "body", follows: "The same event is told to a step of all." },
};
// What tasks of a state can take; those of any state may take all of them.
const TAKEN = {
  Error: ["resubmit", "undo", "skip", "done", "not-done", "event"],
  Parked: ["unpark", "park", "cancel", "event"],
  Pending: ["park", "unpark", "cancel", "event"],
  Processing: ["park", "cancel", "event"],
  "Under way": ["park", "cancel", "event"],
  Processed: ["cancel"],
  Compensated: [],
};
const USUAL = { "": "resubmit", Error: "resubmit", Parked: "unpark" };
const CONTENTS = { result: "Result of the step (JSON)", body: "Event of the step (JSON)" };
const STEP = "[a-z][a-z0-9\\-]{0,31}([.][0-9]{1,2})?";

// Gives null where nothing can be done. `acted()` is called when tasks may have changed.
export function bulkButton(filter, text, acted, name = text) {
  if (TAKEN[stateOf(filter)]?.length === 0) return null;
  const button = el("button", { class: "act", "aria-label": name, click: () => open(filter, button, acted) }, text);
  return button;
}

async function open(filter, button, acted) {
  const view = location.hash;
  button.disabled = true;
  const counted = await attempt(() => api.counted(filter));
  button.disabled = false;
  if (location.hash !== view) return; // whoever asked has gone on to something else
  focusAgain(button);
  if (counted.count === 0 && !counted.more) say("There is no such task.");
  else if (counted.fault) say("The tasks can’t be counted now.", counted.fault);
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
    done: (wish) => new Run(`${ACTIONS[wish.action].verb} ${many(counted)}`, wish, counted, { opener: button, acted }).start(),
    acted() {},
  });
}

function selected({ more, exact }) {
  return [
    el("p", {}, "Tasks that have ended, were submitted or have gone on since this count are left out."),
    more ? el("p", {}, "There are more than were counted: it goes on to all of them.") : null,
    exact ? null : el("p", {}, "The index does not tell all that you ask for: each task is looked at first, and some may not be meant."),
  ];
}

function many({ count: number, more, exact }) {
  const tasks = number === 1 && !more ? "1 task" : `${count(number)} tasks`;
  if (more) return `at least ${tasks}`;
  return exact ? tasks : `up to ${tasks}`;
}

// Where none is usual, nothing is chosen until somebody has chosen.
function options(filter, counted) {
  const state = stateOf(filter);
  const names = TAKEN[state] ?? Object.keys(ACTIONS);
  const none = USUAL[state] ? [] : [el("option", { value: "", selected: true }, "Choose…")];
  return [...none, ...names.map((name) => el("option", { value: name, selected: name === USUAL[state] }, `${ACTIONS[name].verb} ${many(counted)}`))];
}

// The fields that the chosen action needs come and go with it.
function choice(filter, counted) {
  const title = el("span", {});
  const verb = el("span", {});
  const more = el("div", { class: "prospect" });
  let read;
  const show = () => {
    const action = ACTIONS[field.value] ?? { verb: "Act on", follows: null };
    title.textContent = `${action.verb} ${many(counted)}?`;
    verb.textContent = `${action.verb} ${many(counted)}`;
    const step = action.step ? el("input", { id: "step", value: filter.step ?? "", required: true, pattern: STEP, autocomplete: "off" }) : null;
    const json = action.content ? jsonInput(CONTENTS[action.content]) : null;
    more.replaceChildren(...[action.follows && el("p", {}, action.follows), step && el("label", { for: "step" }, "Step"), step, ...(json?.content ?? [])].filter(Boolean));
    read = () => ({ action: field.value, ...(step && { step: step.value }), ...(json && { [action.content]: json.read() }) });
  };
  const field = el("select", { id: "action", required: true, change: show }, options(filter, counted));
  show();
  return { title, verb, content: [el("label", { for: "action" }, "Action"), field, more], field, read: () => read() };
}
