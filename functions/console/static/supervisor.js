// The figures of the Supervisor's last sweep and full sweep, with their meanings.

import { el } from "./elements.js";
import { ago, count, NOTHING, seconds } from "./format.js";
import { facts, flagged, section } from "./tables.js";

// Milliseconds without a sweep after which there is an alert.
const SILENCE = 600_000;

const MEANINGS = {
  examined: ["Examined", "Tasks that were due, and were read."],
  recovered: ["Recovered", "Overdue tasks whose next epoch began: a run continues where they stopped."],
  moved: ["Due later", "Tasks whose index row was outdated, and that are due later."],
  resumed: ["Resumed", "Suspended tasks whose version is deployed again."],
  sent: ["Sent", "Messages of the outbox that had not been sent."],
  dropped: ["Dropped", "Messages of the outbox that cannot be sent any more."],
  created: ["Rows created", "Missing index rows that the full sweep created."],
  deleted: ["Rows deleted", "Index rows without a reason that the full sweep deleted."],
  purged: ["Purged", "Finished tasks, and reservations without an order, that were deleted after their time."],
  failed: ["Failed", "Tasks and shards that an error stopped. The next sweep retries; the log has the cause."],
  late_seconds: ["Late", "The longest time for which an examined task had been due. If it grows from sweep to sweep, there is too much to do."],
  corrupt: ["Corrupt rows", "Rows that cannot be decoded. They are skipped."],
};
const WRONG = ["failed", "corrupt"];

export function supervisor({ sweep, full_sweep: full }) {
  return section("Supervisor", figures("Last sweep", sweep, true), figures("Last full sweep", full, false), meanings());
}

function figures(name, beat, isWatched) {
  if (beat === null) return el("p", { class: "none" }, `${name}: none yet.`);
  const { began_at: began, ended_at: ended, figures: counts, left } = beat;
  const isLate = isWatched && Date.now() - Date.parse(ended) > SILENCE;
  const rest = Object.keys(left).length;
  return facts([
    [name, isLate ? el("strong", { class: "late" }, ago(ended)) : ago(ended)],
    ["Duration", seconds((Date.parse(ended) - Date.parse(began)) / 1000)],
    ...Object.entries(counts).map(([key, value]) => [MEANINGS[key]?.[0] ?? key, textOf(key, value)]),
    ["Unfinished", rest ? el("strong", { class: "late" }, `${count(rest)} ${rest === 1 ? "part" : "parts"}`) : NOTHING],
  ]);
}

function textOf(key, value) {
  if (key === "late_seconds") return seconds(value);
  return WRONG.includes(key) ? flagged(value, "bad") : count(value);
}

function meanings() {
  const others = [["Unfinished", "Parts of the table whose sweep did not reach the end. The next sweep continues there."]];
  const entries = [...Object.values(MEANINGS), ...others].map(([name, meaning]) => el("div", {}, el("dt", {}, name), el("dd", {}, meaning)));
  return el("details", { class: "meanings" }, el("summary", {}, "Meaning of these figures"), el("dl", {}, entries));
}
