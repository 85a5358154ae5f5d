// The first view: what is stuck, what goes on, and whether all that keeps it going is well.

import { addressOfList, addressOfTrends } from "./addresses.js";
import * as api from "./api.js";
import { chart, COUNTS } from "./chart.js";
import { el, replace } from "./elements.js";
import { ago, count, minute, NOTHING, seconds, tally } from "./format.js";
import { goToQueue, queues } from "./queues.js";
import { badge, icon } from "./states.js";
import { supervisor } from "./supervisor.js";
import { facts, flagged, section, table } from "./tables.js";
import { versions } from "./versions.js";

const PAUSE = 5_000;
// Fifty-nine minutes, and the one that runs.
const WHOLE_HOUR = 3_540_000;

export function overviewView(query) {
  const place = el("div", { class: "overview" });
  let queue = query.get("queue");
  return {
    title: "Overview",
    page: "overview",
    open: () => [el("h1", {}, "Overview"), place],
    read: (signal) => Promise.all([api.overview(signal), api.trends({ over: "hour" }, signal)]),
    show([data, trends]) {
      replace(
        place,
        strip(data),
        hour(trends),
        el("div", { class: "sides" }, el("div", {}, workflows(data), versions(data), queues(data)), el("div", {}, silent(data), crowds(data), supervisor(data), breakers(data), housekeeping(data))),
      );
      if (queue) goToQueue(place, queue);
      queue = null; // whoever goes on from there is not brought back
      return PAUSE;
    },
  };
}

function strip(data) {
  const { end_to_end: times } = data.finished;
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
    figure("Processed", finished(data, "processed"), { href: addressOfList({ state: "Processed" }), note: span(data) }),
    figure("Compensated", finished(data, "compensated"), {
      href: addressOfList({ state: "Compensated" }),
      note: span(data),
    }),
    figure("End to end, p50", times ? seconds(times.p50) : NOTHING, { note: times && `p99 ${seconds(times.p99)}` }),
  );
}

function figure(name, value, { href, state, tone, note } = {}) {
  const content = [
    el("span", { class: "name" }, name),
    el("span", { class: "value" }, state ? icon(state) : null, value),
    el("span", { class: "note" }, note ?? ""),
  ];
  const look = `figure ${state ? "bad" : (tone ?? "")}`;
  return el("li", {}, href ? el("a", { class: look, href }, content) : el("span", { class: look }, content));
}

function finished(data, kind) {
  return tally({ count: data.finished[kind], more: data.finished.more });
}

// Where too much finished in an hour to be read, it is of a shorter time.
function span(data) {
  const whole = Date.parse(data.at) - Date.parse(data.finished.since) >= WHOLE_HOUR;
  return whole ? "in the last hour" : `since ${minute(data.finished.since)}`;
}

function hour(trends) {
  const times = { over: "in the last hour", each: "a minute", clock: minute };
  const more = el("p", { class: "pager" }, el("a", { href: addressOfTrends({}) }, "The last day and month"));
  const note = el("p", { class: "note wrapped" }, "What happened in each minute. Above is how tasks stand now: one that was processed and cancelled later counts twice here.");
  return section("The last hour", chart(trends.points, COUNTS, times), note, more);
}

function workflows(data) {
  const rows = data.workflows.map((line) => [
    line.workflow,
    count(line.under_way),
    flagged(line.overdue, "late"),
    flagged(line.in_error, "bad", addressOfList({ state: "Error", workflow: line.workflow })),
    count(line.processed),
    count(line.compensated),
  ]);
  const columns = ["Workflow", "#Under way", "#Overdue", "#Error", "#Processed", "#Compensated"];
  return table("Workflows", columns, rows, "No task is under way, and none finished in the last hour.");
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
