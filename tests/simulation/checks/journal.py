"""Every version that a task's row ever had; and what must be so at each of its transactions (I10)."""

from __future__ import annotations

import bisect
import json
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.checks.rows import INDEXES
from tests.simulation.checks.violations import Invariant, Violation
from tests.simulation.remotes.ledger import RemoteLedger
from tests.simulation.tables.rows import Partition, RowChange, Rows
from tests.simulation.world.world import World

#: The first character behind that of index rows.
_BEHIND_INDEX = '"'


@dataclass(frozen=True, slots=True)
class Version:
    """A task's row as it was from `at` (virtual) on."""

    at: float
    state: str
    epoch: int
    run: int | None
    holder: str | None
    failures: int
    direction: str
    is_parked: bool
    complete_by: str | None


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step's row before and after a transaction, and its task's; times in them are the writer's.

    What its service had done by then, and undone, is from the service's own ledger; of a step that is a
    task, from that one's row.
    """

    before: Mapping[str, Any]
    after: Mapping[str, Any]
    task_before: Mapping[str, Any]
    task_after: Mapping[str, Any]
    was_done: bool
    was_undone: bool

    @property
    def opens_epoch(self) -> bool:
        """Tell whether an operator said so, which opens another epoch."""
        return bool(self.task_before["Epoch"] != self.task_after["Epoch"])


@dataclass(slots=True)
class Journal:
    """Watches the table of the tasks."""

    world: World
    rows: Rows
    ledger: RemoteLedger
    tasks: dict[str, list[Version]] = field(default_factory=dict)
    step_changes: dict[str, list[StepChange]] = field(default_factory=dict)
    #: How many steps each task was born with.
    steps: dict[str, int] = field(default_factory=dict)
    #: Tasks that are steps of others, by task, birth and step of those, as their own orders say.
    children: dict[str, str] = field(default_factory=dict)
    #: Tasks of which an index row was taken away.
    robbed: set[str] = field(default_factory=set)
    torn: list[Violation] = field(default_factory=list)
    #: Rows of tasks and steps as they were last.
    _latest: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def begin(self) -> None:
        """Watch from now on."""
        self.rows.watch = self._watch

    def _watch(self, changes: Sequence[RowChange]) -> None:
        before = {each.key: self._latest.get(each.key) for each in changes}
        for change in changes:
            task, _, part = change.key.partition("|")
            partition = self.rows.partitions[change.partition]
            if change.key in partition.rows and (part == "task" or part.startswith("step|")):
                self._latest[change.key] = partition.rows[change.key].properties
            if part == "task" and change.key in partition.rows:
                version = self._version(partition, change.key)
                self.tasks.setdefault(task, []).append(version)
                self._note_child(partition, task)
                for what in self._missing(partition, task):
                    self.torn.append(Violation(Invariant.ATOMIC_BIRTH, task, what))
        for change in changes:
            self._note_step(self.rows.partitions[change.partition], change.key, before)

    def _note_step(
        self, partition: Partition, key: str, before: Mapping[str, Mapping[str, Any] | None]
    ) -> None:
        task, _, part = key.partition("|")
        step, own, order = before[key], f"{task}|task", f"{task}|order"
        if (
            step is None
            or not part.startswith("step|")
            or key not in self._latest
            or order not in partition.rows
        ):
            return
        after = self._latest[key]
        effect = f"{task}.{partition.rows[order].properties['Birth']}/{after['Name']}"
        change = StepChange(
            before=step,
            after=after,
            task_before=before.get(own) or self._latest[own],
            task_after=self._latest[own],
            was_done=bool(self.ledger.done.get(effect)) or self._child_was(effect, "Processed"),
            was_undone=bool(self.ledger.undone.get(effect)) or self._child_was(effect, "Compensated"),
        )
        self.step_changes.setdefault(task, []).append(change)

    def _note_child(self, partition: Partition, task: str) -> None:
        order = partition.rows.get(f"{task}|order")
        if order is not None and "Parent" in order.properties:
            parent = json.loads(b64decode(order.properties["Parent"]))
            self.children[f"{parent['task']}.{parent['birth']}/{parent['step']}"] = task

    def _child_was(self, effect: str, state: str) -> bool:
        child = self.children.get(effect, "")
        return any(version.state == state for version in self.tasks.get(child, ()))

    def _version(self, partition: Partition, key: str) -> Version:
        there = partition.rows[key].properties
        return Version(
            at=self.world.loop.time(),
            state=there["ProcessState"],
            epoch=there["Epoch"],
            run=there.get("Run"),
            holder=there.get("LockedBy"),
            failures=there["FailureCount"],
            direction=there["Direction"],
            is_parked="ParkedFor" in there,
            complete_by=there.get("CompleteBy"),
        )

    def _missing(self, partition: Partition, task: str) -> Iterator[str]:
        if f"{task}|order" not in partition.rows:
            yield "is there without its order"
        begin, end = (bisect.bisect_left(partition.keys, f"{task}|step|{mark}") for mark in ("", "~"))
        if self.steps.setdefault(task, end - begin) != end - begin:
            yield f"has {end - begin} steps, and had {self.steps[task]}"
        behind = bisect.bisect_left(partition.keys, _BEHIND_INDEX)
        own = [key for key in partition.keys[:behind] if key.startswith(INDEXES) and key.endswith(f"|{task}")]
        if len(own) != 1 and task not in self.robbed:
            yield f"has the index rows {own}"
