// The first view: what is stuck, what goes on, and whether all that keeps it going is well.

import { addressOfList } from "./addresses.js";
import * as api from "./api.js";
import { lastHour } from "./chart.js";
import { el, replace } from "./elements.js";
import { ago, count, NOTHING, seconds, tally } from "./format.js";
import { goToQueue, queues } from "./queues.js";
import { badge, icon } from "./states.js";
import { supervisor } from "./supervisor.js";
import { facts, flagged, section, table } from "./tables.js";
import { versions } from "./versions.js";

const PAUSE = 5_000;

export function overviewView(query) {
  const place = el("div", { class: "overview" });
  let queue = query.get("queue");
  return {
    title: "Overview",
    page: "overview",
    open: () => [el("h1", {}, "Overview"), place],
    read: (signal) => api.overview(signal),
    show(data) {
      replace(
        place,
        strip(data),
        lastHour(data.last_hour),
        el("div", { class: "sides" }, el("div", {}, workflows(data), versions(data), queues(data)), el("div", {}, silent(data), crowds(data), supervisor(data), breakers(data), housekeeping(data))),
      );
      if (queue) goToQueue(place, queue);
      queue = null; // whoever goes on from there is not brought back
      return PAUSE;
    },
  };
}

function strip(data) {
  return el(
    "ul",
    { class: "strip" },
    figure("In Error", tally(data.in_error), { state: data.in_error.count ? "Error" : null, href: "#/tasks" }),
    figure("Overdue now", tally(data.overdue), {
      tone: data.overdue.count ? "late" : null,
      href: addressOfList({ under_way: true, order: "oldest" }),
    }),
    figure("Parked", tally(data.parked), {
      tone: data.parked.count ? "late" : null,
      href: addressOfList({ parked: true }),
    }),
    figure("Under way", tally(data.under_way), { href: addressOfList({ under_way: true }) }),
  );
}

function figure(name, value, { href, state, tone }) {
  const content = [el("span", { class: "name" }, name), el("span", { class: "value" }, state ? icon(state) : null, value)];
  return el("li", {}, el("a", { class: `figure ${state ? "bad" : (tone ?? "")}`, href }, content));
}

function workflows(data) {
  const rows = data.workflows.map((line) => [
    line.workflow,
    count(line.under_way),
    flagged(line.overdue, "late"),
    flagged(line.in_error, "bad", addressOfList({ state: "Error", workflow: line.workflow })),
  ]);
  const columns = ["Workflow", "#Under way", "#Overdue", "#Error"];
  return table("Workflows", columns, rows, "No task is under way, parked or in Error.");
}

function silent({ silent_agents: agents }) {
  if (agents.length === 0) return null;
  const rows = agents.map((each) => [each.agent, each.since ? ago(each.since) : "never", el("strong", { class: "late" }, count(each.tasks))]);
  return table("Agents that do not reply", ["Agent", "Last reply", "#Tasks wait"], rows);
}

function crowds({ crowds: known }) {
  if (known.length === 0) return null;
  const rows = known.map((each) => [each.behind, each.cause, ago(each.since), el("strong", { class: "late" }, count(each.tasks))]);
  return table("Tasks that are late together", ["Behind", "Cause", "Since", "#Tasks"], rows);
}

function housekeeping({ housekeeping: beat, unreadable }) {
  return section(
    "Housekeeping",
    facts([
      ["Last run", ago(beat?.finished_at)],
      ["Tasks deleted", beat ? count(beat.tasks) : NOTHING],
      ["Behind", beat?.behind_seconds ? el("strong", { class: "late" }, seconds(beat.behind_seconds)) : NOTHING],
      ["Unreadable rows", flagged(unreadable, "bad")],
    ]),
  );
}

// A probe is a task's own call: there is none while no task needs the service.
function probe(at) {
  return Date.parse(at) > Date.now() ? ago(at) : "at the next call";
}

function inFlight({ in_flight: calls, limit }) {
  return limit === null ? NOTHING : `${count(calls)} of ${count(limit)}`;
}

// Calls are told only where those of some service are limited.
function breakers(data) {
  const isLimited = data.breakers.some(({ limit }) => limit !== null);
  const rows = data.breakers.map((breaker) => [
    breaker.service,
    badge(breaker.state),
    ago(breaker.since),
    count(breaker.failures),
    breaker.probe_at ? probe(breaker.probe_at) : NOTHING,
    ...(isLimited ? [inFlight(breaker)] : []),
  ]);
  const columns = ["Service", "Circuit", "Since", "#Failures", "Next probe", ...(isLimited ? ["#In flight"] : [])];
  const errors = data.breakers.filter((breaker) => breaker.state !== "closed" && breaker.last_error);
  const made = table("Remote services", columns, rows, "No circuit was ever open, and no calls are limited: every remote service is called.");
  made.append(...errors.map((breaker) => el("p", { class: "note wrapped" }, `Last error of ${breaker.service}: ${breaker.last_error}`)));
  return made;
}
