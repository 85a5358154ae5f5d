// What happened over the last hour, day and month, and which step is slow or failing now.

import { addressOfTrends } from "./addresses.js";
import * as api from "./api.js";
import { chart, COUNTS, DURATIONS } from "./chart.js";
import { el, replace } from "./elements.js";
import { count, day, minute, NOTHING, seconds } from "./format.js";
import { heat } from "./heat.js";
import { flagged, section, table } from "./tables.js";

const PAUSE = 15_000;
const TIMES = {
  hour: { title: "The last hour", over: "in the last hour", each: "a minute", clock: minute },
  day: { title: "The last day", over: "in the last day", each: "an hour", clock: minute },
  month: { title: "The last 30 days", over: "in the last 30 days", each: "a day (UTC)", clock: day },
};
const ROWS = [...COUNTS, { name: "recovered", title: "Recoveries", tone: "late" }, ...DURATIONS];
const COLUMNS = ["#Accepted", "#Processed", "#Compensated", "#Error", "#Recoveries", "#p50", "#p99"];

export function trendsView(query) {
  const workflow = query.get("workflow");
  const over = query.get("over") in TIMES ? query.get("over") : "day";
  const place = el("div", { class: "trends" });
  const narrow = matchMedia("(max-width: 640px)");
  let again;
  return {
    title: "Over time",
    page: "trends",
    open(look) {
      again = look;
      narrow.addEventListener("change", look);
      return [el("h1", {}, "Over time"), place];
    },
    close: () => narrow.removeEventListener("change", again),
    read: (signal) => Promise.all([api.trends(workflow ? { over, workflow } : { over }, signal), api.heat(signal)]),
    show([trends, now]) {
      const shown = workflow ? trends.workflows.filter((each) => each.workflow === workflow) : trends.workflows;
      replace(
        place,
        heat(workflow ? { ...now, workflows: now.workflows.filter((each) => each.workflow === workflow) } : now, narrow.matches),
        times(over, workflow),
        section(workflow ?? "All workflows", chart(trends.points, ROWS, TIMES[over]), points(trends.points, over)),
        workflows(trends.workflows, over),
        steps(shown),
      );
      return PAUSE;
    },
  };
}

function times(chosen, workflow) {
  const links = Object.entries(TIMES).map(([over, { title }]) =>
    el("a", { href: addressOfTrends({ over, workflow }), "aria-current": over === chosen && "true" }, title),
  );
  const all = workflow ? el("a", { href: addressOfTrends({ over: chosen }) }, "All workflows") : null;
  return el("nav", { class: "choice", "aria-label": "Time" }, links, all);
}

// The chart's numbers, for whoever can't see it or wants to copy them.
function points(all, over) {
  const { clock, title } = TIMES[over];
  const rows = all.map((point) => [clock(point.at), ...numbers(point)]).reverse();
  return el(
    "details",
    {},
    el("summary", {}, "The same in numbers"),
    table(`${title} in numbers`, [over === "month" ? "Day (UTC)" : "From", ...COLUMNS], rows),
  );
}

function numbers(counts) {
  const { accepted, processed, compensated, error, recovered, p50, p99 } = counts;
  return [count(accepted), count(processed), count(compensated), flagged(error, "bad"), flagged(recovered, "late"), lasting(p50), lasting(p99)];
}

function lasting(value) {
  return value === null ? NOTHING : seconds(value);
}

function workflows(all, over) {
  const rows = all.map((each) => [el("a", { href: addressOfTrends({ over, workflow: each.workflow }) }, each.workflow), ...numbers(each)]);
  return table("Workflows", ["Workflow", ...COLUMNS], rows, "Nothing happened in this time.");
}

function steps(all) {
  const rows = all.flatMap(({ workflow, steps: lines }) =>
    lines.map((line) => [
      `${workflow} · ${line.direction === "undo" ? "undo of " : ""}${line.step}`,
      count(line.completed),
      flagged(line.failed, "bad"),
      flagged(line.expired, "late"),
      lasting(line.p50),
      lasting(line.p99),
    ]),
  );
  return table("Steps", ["Step", "#Done", "#Refused", "#Expired", "#p50", "#p99"], rows, "No step has ended in this time.");
}
