"""I6, order, and I8: what is called is on record, comes after what it needs, and is sent in time."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from tests.simulation.checks.definitions import StepsByName
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.violations import Invariant, Violation
from tests.simulation.remotes.ledger import RemoteCall
from tests.simulation.tables.rows import Rows

_NOT_BEGUN = frozenset({"NotStarted", "Skipped"})
_SETTLED = frozenset({"Completed", "Skipped"})
_UNDOABLE = frozenset({"Running", "Completed", "Failed", "Unrecorded", "Undoing"})


def limits_of_services(evidence: Evidence) -> Iterator[Violation]:
    """Find services that had more calls in flight than their limit allows."""
    for agent, limit in evidence.limits.items():
        most = evidence.most_in_flight.get(agent, 0)
        if most > limit:
            yield Violation(Invariant.LIMIT, None, f"{agent} had {most} calls in flight, of {limit}")


class OrderOfCalls:
    """Looks at the record at the very moment at which a call arrives."""

    def __init__(self, rows: Rows, steps: StepsByName, *, clocks_are_right: bool) -> None:
        self._rows = rows
        self._clocks_are_right = clocks_are_right
        self._steps = steps
        self.violations: list[Violation] = []

    def arrived(self, call: RemoteCall) -> None:
        """Check one call."""
        task, steps = self._record(call.task)
        name = call.step.rpartition("/")[2]
        found = self._faults(call, name, task, steps)
        self.violations += [Violation(Invariant.ORDER, call.task, what) for what in found]
        complete_by = steps.get(name, {}).get("CompleteBy")
        if self._clocks_are_right and complete_by and call.sent_at > datetime.fromisoformat(complete_by):
            what = f"{call.key} was sent after its complete-by, {complete_by}"
            self.violations.append(Violation(Invariant.SILENCE_OF_THE_LATE, call.task, what))

    def _faults(
        self,
        call: RemoteCall,
        name: str,
        task: Mapping[str, Any] | None,
        steps: Mapping[str, Mapping[str, Any]],
    ) -> Iterator[str]:
        own = steps.get(name)
        if task is None or own is None:
            yield f"{call.key} was called, and is not on record"
        elif call.is_undo:
            if task["Direction"] != "undo":
                yield f"{call.key} was called, and its task is not to be undone"
            yield from self._undone_too_early(call, name, steps)
        elif own.get("State", "NotStarted") in _NOT_BEGUN and "NotTaken" not in own:
            # Of a request that came twice, one can be told not to be taken while the other is under way.
            yield f"{call.key} was called, and is on record as {own.get('State')}"
        elif own["State"] == "Running" and own["Epoch"] == task["Epoch"]:
            yield from self._done_too_early(call, name, steps)

    def _done_too_early(
        self, call: RemoteCall, name: str, steps: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[str]:
        needs = self._steps.step(name).needs
        for other, row in steps.items():
            state = row.get("State", "NotStarted")
            is_settled = state in _SETTLED or (state == "Failed" and self._steps.may_fail(other))
            if other.partition(".")[0] in needs and not is_settled:
                yield f"{call.key} was called, and needs {other}, which is {state}"

    def _undone_too_early(
        self, call: RemoteCall, name: str, steps: Mapping[str, Mapping[str, Any]]
    ) -> Iterator[str]:
        if steps[name].get("State") != "Undoing":
            return
        needing = self._steps.needed_by(name)
        for other, row in steps.items():
            is_later = other.partition(".")[0] in needing and self._steps.step(other).undo
            if is_later and row.get("State") in _UNDOABLE and "StartedAt" in row:
                yield f"{call.key} was called before that of {other}, which is {row.get('State')}"

    def _record(self, task: str) -> tuple[Mapping[str, Any] | None, dict[str, Mapping[str, Any]]]:
        own: Mapping[str, Any] | None = None
        steps: dict[str, Mapping[str, Any]] = {}
        for partition in self._rows.partitions.values():
            for key in partition.keys[bisect.bisect_left(partition.keys, f"{task}|") :]:
                if not key.startswith(f"{task}|"):
                    break
                properties = partition.rows[key].properties
                if key == f"{task}|task":
                    own = properties
                elif "|step|" in key:
                    steps[properties["Name"]] = properties
        return own, steps
