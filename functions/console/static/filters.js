// The filter of a list. Each change is a new address, so that the browser's history works. An id leads to its task.

import { addressOfList, addressOfTask } from "./addresses.js";
import { el } from "./elements.js";

const STATES = ["Error", "Under way", "Suspended", "Pending", "Processing", "Processed", "Compensated"];
const AGES = [
  ["", "any age"],
  ["max_age=3600", "up to 1 hour"],
  ["max_age=86400", "up to 1 day"],
  ["min_age=600", "10 minutes or more"],
  ["min_age=3600", "1 hour or more"],
  ["min_age=86400", "1 day or more"],
];
const ORDERS = [
  ["newest", "newest first"],
  ["oldest", "oldest first"],
];

// Rarely used fields. With one of `SOUGHT`, the default is any state.
const SOUGHT = [
  ["Text of its payload", "find", 100],
  ["Submitter", "submitter", 100],
  ["Correlation id", "correlation_id", 128],
];
const CAUSE = [
  ["Step", "step", 32, "[a-z][a-z0-9\\-]{0,31}"],
  ["Error like", "error", 256],
];

export function filters(asked) {
  const anyState = isSought(asked) ? [["", "any"]] : [];
  const states = [...anyState, ...STATES.map((state) => [state, state])];
  const form = el(
    "form",
    {
      class: "filters",
      role: "search",
      "aria-label": "Tasks",
      submit: (event) => { event.preventDefault(); go(form, asked); },
      change: () => go(form, asked),
    },
    field("State", choice("state", states, stateOf(asked))),
    field("Workflow", text("workflow", asked.workflow, "any", "[a-z][a-z0-9\\-]{0,31}")),
    field("Version", text("version", asked.version, "any", "[1-9][0-9]{0,8}")),
    field("Age", choice("age", AGES, ageOf(asked))),
    field("Order", choice("order", ORDERS, asked.order ?? "newest")),
    field("Id", text("task", "", "exact", "[A-Za-z0-9_\\-]{1,64}")),
    more(asked),
    el("button", {}, "Find"),
  );
  return form;
}

// The interface has parameters of their own for these.
const APART = { Suspended: { suspended: true }, "Under way": { under_way: true } };

// Returns the chosen state; the empty text is any.
export function stateOf(asked) {
  if (asked.suspended) return "Suspended";
  if (asked.under_way) return "Under way";
  return asked.state ?? (isSought(asked) ? "" : "Error");
}

function isSought(asked) {
  return SOUGHT.some(([, name]) => asked[name]);
}

function more(asked) {
  const named = [...SOUGHT, ...CAUSE];
  const fields = named.map(([label, name, most, pattern]) => field(label, text(name, asked[name], "any", pattern, most)));
  return el("details", { open: named.some(([, name]) => asked[name]) }, el("summary", {}, "More"), el("div", { class: "more" }, fields));
}

function field(name, input) {
  return el("label", {}, el("span", {}, name), input);
}

function choice(name, options, chosen) {
  return el(
    "select",
    { name },
    options.map(([value, label]) => el("option", { value, selected: value === chosen }, label)),
  );
}

function text(name, value, placeholder, pattern, most) {
  return el("input", { name, value, placeholder, pattern, maxlength: most, type: "search", autocomplete: "off", spellcheck: "false" });
}

function ageOf(asked) {
  if (asked.min_age) return `min_age=${asked.min_age}`;
  return asked.max_age ? `max_age=${asked.max_age}` : "";
}

function go(form, before) {
  if (!form.reportValidity()) return;
  const { task, age, state, ...others } = Object.fromEntries(new FormData(form));
  const asked = { ...stateAsked(state, before), ...others, ...Object.fromEntries(new URLSearchParams(age)) };
  location.hash = task ? addressOfTask(task) : addressOfList(asked);
}

// An unchanged state is not written into the address, because the default depends on the other fields.
function stateAsked(state, before) {
  if (APART[state]) return APART[state];
  return state === stateOf(before) ? { state: before.state } : { state };
}
