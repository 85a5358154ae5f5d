// The question that only an operator can answer: whether a step was done whose outcome is unknown.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el } from "./elements.js";
import { jsonInput } from "./json_input.js";
import { toldOfAnswer } from "./prospects.js";

// `taken(given)` is told what the interface answered, `acted()` that the task may have changed.
export function questions(task, taken, acted) {
  const { question, answers } = task.prospects;
  return el(
    "section",
    { class: "question", "aria-labelledby": "question-title" },
    el("h2", { id: "question-title" }, answers.every(onlyResult) ? "Its result is missing" : "Was it done?"),
    el("p", { class: "text" }, question),
    el(
      "p",
      { id: "question" },
      "Find out at the service what happened. Until it is answered here, the task can’t be resubmitted.",
    ),
    answers.map((each) => choices(task, each, taken, acted)),
  );
}

// It is known that the step was done.
function onlyResult(answers) {
  return answers.not_done === null;
}

function choices(task, answers, taken, acted) {
  const button = (kind, text) => el("button", { "aria-label": `${answers.step}: ${text}…`, click: () => open(task, answers, kind, text, taken, acted) }, `${text}…`);
  return el(
    "div",
    { role: "group", "aria-label": answers.step, class: "choices" },
    el("strong", {}, answers.step),
    button("done", onlyResult(answers) ? "Give its result" : "It was done"),
    onlyResult(answers) ? null : button("not_done", "It was not done"),
  );
}

function open(task, answers, kind, text, taken, acted) {
  const { step } = answers;
  const answer = kind === "done" ? api.foundDone : api.foundNotDone;
  ask({
    title: `${step}: ${text.toLowerCase()}`,
    verb: text,
    content: toldOfAnswer(task, answers, kind),
    input: kind === "done" ? jsonInput(`Result of ${step}, as its service gives it (JSON)`) : null,
    act: (reason, result) => answer(task, step, reason, result),
    done: taken,
    acted,
  });
}
