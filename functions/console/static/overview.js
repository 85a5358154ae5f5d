// The first view: tasks that need action, the last hour, and the state of all parts.

import { addressOfList } from "./addresses.js";
import * as api from "./api.js";
import { lastHour } from "./chart.js";
import { closeDialog } from "./dialog.js";
import { el, replace } from "./elements.js";
import { count, tally } from "./format.js";
import { gates } from "./gates.js";
import { queues } from "./queues.js";
import { icon } from "./states.js";
import { supervisor } from "./supervisor.js";
import { corruptRows, flagged, table } from "./tables.js";

const PAUSE = 5_000;

export function overviewView(query) {
  const place = el("div", { class: "overview" });
  let at = query.get("at");
  let again;
  return {
    title: "Overview",
    page: "overview",
    open(look) {
      again = look;
      return [el("h1", {}, "Overview"), place];
    },
    close: closeDialog,
    read: (signal) => api.overview(signal),
    show(data) {
      const left = el("div", {}, workflows(data), queues(data));
      const right = el("div", {}, gates(data, again), supervisor(data), corruptRows(data.corrupt));
      replace(place, strip(data), lastHour(data.last_hour), el("div", { class: "sides" }, left, right));
      if (at) focusOn(place, at);
      at = null; // once only
      return PAUSE;
    },
  };
}

// Focuses the line of a queue or a gate.
function focusOn(place, at) {
  const line = [...place.querySelectorAll("[data-at]")].find((each) => each.dataset.at === at);
  line?.focus();
  line?.scrollIntoView({ block: "center" });
}

function strip(data) {
  const late = (counted) => (counted.count ? "late" : null);
  return el(
    "ul",
    { class: "strip" },
    figure("In Error", data.in_error, { state: data.in_error.count ? "Error" : null, href: "#/tasks" }),
    figure("Overdue now", data.overdue, { tone: late(data.overdue), href: addressOfList({ under_way: true, order: "oldest" }) }),
    figure("Suspended", data.suspended, { tone: late(data.suspended), href: addressOfList({ suspended: true }) }),
    figure("Under way", data.under_way, { href: addressOfList({ under_way: true }) }),
  );
}

function figure(name, counted, { href, state, tone }) {
  const content = [el("span", { class: "name" }, name), el("span", { class: "value" }, state ? icon(state) : null, tally(counted))];
  return el("li", {}, el("a", { class: `figure ${state ? "bad" : (tone ?? "")}`, href }, content));
}

// The versions that are deployed or needed. An older one that no task needs can be removed.
function workflows(data) {
  const newest = new Map(data.versions.filter((line) => line.deployed).map((line) => [line.workflow, line.version]));
  // Incomplete counts and corrupt rows may hide tasks of any version.
  const isComplete = data.corrupt.length === 0 && [data.under_way, data.suspended, data.in_error].every((counted) => !counted.more);
  const rows = data.versions.map((line) => {
    const { workflow, version } = line;
    return [
      `${workflow} v${version}`,
      deployed(line, isComplete && version !== newest.get(workflow)),
      flagged(line.under_way, "plain", addressOfList({ under_way: true, workflow, version })),
      flagged(line.overdue, "late"),
      flagged(line.suspended, "late", addressOfList({ suspended: true, workflow, version })),
      flagged(line.in_error, "bad", addressOfList({ state: "Error", workflow, version })),
    ];
  });
  return table("Workflows", ["Workflow", "Deployed", "#Under way", "#Overdue", "#Suspended", "#Error"], rows, "No workflow is deployed.");
}

function deployed(line, canBeRemoved) {
  if (!line.deployed) return el("strong", { class: "late" }, "no");
  const needed = line.under_way + line.suspended + line.in_error;
  return canBeRemoved && needed === 0 ? "yes, no task needs it" : "yes";
}
