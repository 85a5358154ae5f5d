"""Counts the outcomes of tasks and steps, where each change passes once: when it is recorded."""

from __future__ import annotations

from functions.pattern.occurrences import Occurrences, TaskEnd, occurrences
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import ChangeAnnouncer
from functions.telemetry import instruments
from functions.telemetry.collected import CollectedTrends
from functions.telemetry.fields import Facts, Field, attributes

_ENDS = {
    ProcessState.PROCESSED: instruments.PROCESSED,
    ProcessState.COMPENSATED: instruments.COMPENSATED,
    ProcessState.ERROR: instruments.ERRORS,
}


class CountedChanges:
    """Counts each change, then has it announced. A crash between record and count loses the count."""

    def __init__(self, announcer: ChangeAnnouncer, trends: CollectedTrends) -> None:
        self._announcer = announcer
        self._trends = trends

    async def announce(self, before: TaskRecord | None, after: TaskRecord) -> None:
        """Count the change from `before` to `after`, and announce it."""
        occurred = occurrences(before, after)
        _measure(occurred)
        self._trends.collect(occurred)
        await self._announcer.announce(before, after)


def _measure(occurred: Occurrences) -> None:
    workflow = {Field.WORKFLOW.value: occurred.workflow}
    if occurred.accepted:
        instruments.SUBMITTED.add(1, workflow)
    if occurred.recovered:
        instruments.RECOVERIES.add(1, workflow)
    if occurred.end is not None:
        _measure_end(occurred.end, workflow)
    for step in occurred.steps:
        facts: Facts = {
            Field.AGENT: step.shape.agent,
            Field.OUTCOME: step.outcome.value,
            Field.DIRECTION: step.direction.value,
        }
        instruments.STEP_DURATION.record(step.seconds, attributes(facts))


def _measure_end(end: TaskEnd, workflow: dict[str, str]) -> None:
    _ENDS[end.state].add(1, workflow)
    instruments.TASK_DURATION.record(end.seconds, {**workflow, Field.STATE.value: end.state.value})
