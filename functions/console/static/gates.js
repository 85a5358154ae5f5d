// The gates of remote services and of Agents' queues: their circuits, holds, limits and waiting tasks.

import * as api from "./api.js";
import { ask } from "./dialog.js";
import { el } from "./elements.js";
import { ago, clock, count, tally } from "./format.js";
import { announce } from "./freshness.js";
import { badge } from "./states.js";
import { section } from "./tables.js";

// `acted()` is called when a gate may have changed.
export function gates(data, acted) {
  const lines = data.gates.map((gate) => line(gate, acted));
  return section(
    "Gates",
    lines.length ? el("ol", { class: "lines", "aria-label": "Gates" }, lines) : el("p", { class: "none" }, "No workflow calls a service."),
    el("p", { class: "note wrapped" }, "One gate for each remote service, and for the queue of each Agent behind a queue (queue:…)."),
  );
}

function line(gate, acted) {
  const { circuit, gate: name, hold } = gate;
  const button = (text, label, open) => el("button", { class: "act", "aria-label": `${label} ${name}…`, click: () => open(gate, acted) }, `${text}…`);
  return el(
    "li",
    { class: "message", tabindex: -1, "data-at": `gate ${name}`, "aria-label": name },
    el("span", {}, el("strong", {}, name), " ", hold ? badge("held") : badge(circuit, `circuit ${circuit}`)),
    el("span", { class: "buttons" }, hold ? button("End hold", "End hold of", askToEnd) : button("Hold", "Hold", askToHold), button("Limit", "Limit", askForLimit)),
    hold ? el("p", { class: "text" }, `Held by ${hold.who} since `, clock(hold.start), `: ${hold.reason}`) : null,
    notes(gate),
  );
}

function notes({ away_from: away, calls_at_once: limit, circuit, deferred, deferred_since: since, is_away: isAway, next_at: next, since: changed }) {
  const texts = [
    changed && [`circuit ${circuit} since `, clock(changed)],
    isAway && ["no success since ", clock(away)],
    circuit !== "closed" && next && ["next probe ", Date.parse(next) > Date.now() ? ago(next) : "is due"],
    deferred.count && [el("strong", { class: "late" }, `${tally(deferred)} deferred`), ", the first since ", clock(since)],
    limit !== null && `at most ${count(limit)} ${limit === 1 ? "call" : "calls"} per instance`,
  ].filter(Boolean);
  return texts.length ? el("p", { class: "note" }, texts.map((text, at) => [at ? " · " : "", text])) : null;
}

function askToHold({ gate }, acted) {
  const content = "No call of this gate starts until an operator ends the hold. Calls under way end. Waiting tasks count no failure, and their deadlines do not run. Undos wait, too.";
  askFor(gate, "Hold", el("p", {}, content), (reason) => api.actOnGate(gate, "hold", reason), acted);
}

function askToEnd({ deferred, gate, hold }, acted) {
  const content = `${tally(deferred)} deferred ${deferred.count === 1 ? "task is" : "tasks are"} released one after the other, in the order of waiting.`;
  askFor(gate, "End hold of", el("p", {}, content), (reason) => api.actOnGate(gate, "end-hold", reason, { since: hold.start }), acted);
}

function askForLimit({ calls_at_once: limit, gate }, acted) {
  const field = el("input", { id: "limit", type: "number", min: 1, max: 1000, value: limit, placeholder: "the Agent’s setting" });
  const input = { content: [el("label", { for: "limit" }, "Calls of one instance at a time (empty: the Agent’s setting)"), field], field, read: () => ({ calls_at_once: field.value ? Number(field.value) : null }) };
  askFor(gate, "Limit", el("p", {}, "The limit applies to calls that start from now on."), (reason, more) => api.actOnGate(gate, "limit", reason, more), acted, input);
}

function askFor(gate, verb, content, act, acted, input = null) {
  const done = () => announce(`${verb} ${gate}: accepted.`);
  ask({ title: `${verb} ${gate}?`, verb: `${verb} ${gate}`, content, input, act, done, acted });
}
