// Which versions of workflows are deployed, and which tasks need them: an old one that none needs can be dropped.

import { addressOfList } from "./addresses.js";
import { el } from "./elements.js";
import { flagged, table } from "./tables.js";

export function versions(data) {
  const newest = new Map(data.versions.filter((line) => line.deployed).map((line) => [line.workflow, line.version]));
  // What was not counted to its end, or can't be read, may be of any version.
  const whole = data.unreadable === 0 && [data.under_way, data.parked, data.in_error].every((counted) => !counted.more);
  const rows = data.versions.map((line) => {
    const { workflow, version } = line;
    return [
      `${workflow} v${version}`,
      deployed(line, whole && version !== newest.get(workflow)),
      flagged(line.under_way, "plain", addressOfList({ state: "Processing", workflow, version })),
      flagged(line.parked, "late", addressOfList({ parked: true, workflow, version })),
      flagged(line.in_error, "bad", addressOfList({ state: "Error", workflow, version })),
    ];
  });
  return table("Versions", ["Workflow", "Deployed", "#Under way", "#Parked", "#Error"], rows, "No workflow is deployed.");
}

function deployed(line, mayGo) {
  if (!line.deployed) return el("strong", { class: "late" }, "no");
  const needed = line.under_way + line.parked + line.in_error;
  return mayGo && needed === 0 ? "yes, no task needs it" : "yes";
}
