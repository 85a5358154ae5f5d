// The steps as they are defined: the items of a for-each step are gathered as one.

import { word } from "./states.js";

// Of several states, the first of these is shown.
const TELLING = ["Failed", "Unrecorded", "Undoing", "Running", "NotStarted", "Completed", "Undone", "Skipped"];

export function definedSteps({ needs, steps }) {
  return Object.keys(needs).map((name) => {
    const items = steps.filter((step) => step.item !== null && step.name === `${name}.${step.item}`);
    return steps.find((step) => step.name === name) ?? gathered(name, items);
  });
}

function gathered(name, items) {
  if (items.length === 0) return { name, state: "Skipped", told: "No items", error: null };
  const state = TELLING.find((each) => items.some((item) => item.state === each));
  const alike = items.filter((item) => item.state === state);
  return { name, state, told: `${alike.length} of ${items.length} ${word(state).toLowerCase()}`, error: alike[0].error };
}
