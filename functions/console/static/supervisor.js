// What the Supervisor's last sweep came to, with what each figure means.

import { el } from "./elements.js";
import { ago, count, NOTHING, seconds } from "./format.js";
import { facts, flagged, section } from "./tables.js";

// As long as the alert `supervisor-silent` waits.
const SILENCE = 600_000;

const MEANINGS = [
  ["Last sweep", "When the Supervisor last looked for overdue tasks. It sweeps every 30 seconds, unless set otherwise; after ten minutes without a sweep there is an alert."],
  ["Took", "How long that sweep took. One that takes longer than two minutes is cut short, and the next goes on."],
  ["Found", "Tasks whose time to be looked at had come. Most are not overdue: they are looked at again later."],
  ["Overdue", "Tasks of which a step, or their Scheduler, has not finished by its complete-by time."],
  ["Recovered", "Overdue tasks that were given to their next epoch: their Schedulers start again where they stopped."],
  ["Late together", "Overdue tasks that are late with many others, for one reason: they have more time, were asked for again, or run again. None of that counts as their failure."],
  ["Given up", "Overdue tasks whose recoveries are used up: they are undone, or held in Error, as their workflow says."],
  ["Parked", "Overdue tasks whose workflow’s version is not deployed here: they go on by themselves when it is."],
  ["Failures", "Tasks and shards that an error kept from being looked at; the next sweep tries again. The log says why."],
  ["Oldest overdue", "For how long the most overdue task has been late. If it grows from sweep to sweep, recoveries do not help."],
  ["Finished its work", "Whether the sweep came to its end. If not, more was overdue than fits in one; the next goes on from there."],
];

export function supervisor({ supervisor: beat }) {
  if (beat === null) return section("Supervisor", el("p", { class: "none" }, "No sweep yet."), meanings());
  return section(
    "Supervisor",
    facts([
      ["Last sweep", isSilent(beat) ? el("strong", { class: "late" }, ago(beat.finished_at)) : ago(beat.finished_at)],
      ["Took", seconds((Date.parse(beat.finished_at) - Date.parse(beat.started_at)) / 1000)],
      ["Found", count(beat.found)],
      ["Overdue", count(beat.overdue)],
      ["Recovered", count(beat.recovered)],
      ["Late together", count((beat.extended ?? 0) + (beat.asked_again ?? 0) + (beat.resumed ?? 0))],
      ["Given up", count(beat.given_up)],
      ["Parked", count(beat.parked)],
      ["Failures", flagged(beat.failures, "bad")],
      ["Oldest overdue", beat.oldest_overdue ? seconds(beat.oldest_overdue) : NOTHING],
      ["Finished its work", beat.unfinished ? el("strong", { class: "late" }, "no") : "yes"],
    ]),
    meanings(),
  );
}

function meanings() {
  const entries = MEANINGS.map(([name, meaning]) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning)));
  return el("details", { class: "meanings" }, el("summary", {}, "What these figures mean"), el("dl", {}, entries));
}

function isSilent(beat) {
  return Date.now() - Date.parse(beat.finished_at) > SILENCE;
}
