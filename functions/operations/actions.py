"""What operators do to a task in `Error`: run it again, or have it undone.

The epoch that ends is kept with who ended it and why: that row is the record of the action.
"""

from __future__ import annotations

from datetime import timedelta
from http import HTTPStatus

from functions.operations.tasks import Tasks
from functions.pattern.events import OperatorEvent, Refused, Resubmitted, UndoRequested
from functions.pattern.identity import TaskId
from functions.pattern.ports import Clock
from functions.pattern.records import TaskRecord
from functions.pattern.store_ports import StateStore
from functions.telemetry.spans import current_traceparent
from functions.telemetry.tasks import decision_span
from functions.web.problems import ProblemError

#: What an action is called in traces.
_NAMES = {Resubmitted: "resubmit", UndoRequested: "undo"}


class Actions:
    """Operators' actions. `start_within` is in seconds: by then a Scheduler must have taken the task."""

    def __init__(self, *, tasks: Tasks, store: StateStore, clock: Clock, start_within: float) -> None:
        self._tasks = tasks
        self._store = store
        self._clock = clock
        self._start_within = timedelta(seconds=start_within)

    async def resubmit(self, task: TaskId, *, who: str, reason: str) -> TaskRecord:
        """Have a task run again from where it stopped. Raises `ProblemError` 404 and 409."""
        return await self._act(Resubmitted, task, who, reason)

    async def undo(self, task: TaskId, *, who: str, reason: str) -> TaskRecord:
        """Have everything undone that was dispatched. Raises `ProblemError` 404 and 409."""
        return await self._act(UndoRequested, task, who, reason)

    async def _act(self, action: type[OperatorEvent], task: TaskId, who: str, reason: str) -> TaskRecord:
        stored = await self._tasks.find(task)
        epoch, start_by = stored.record.task.epoch, self._clock.now() + self._start_within
        with decision_span(stored.record, _NAMES[action]):
            event = action(
                epoch=epoch, who=who, reason=reason, start_by=start_by, traceparent=current_traceparent()
            )
            outcome = await self._store.change(stored, event)
        if isinstance(outcome, Refused):
            text = f"The task is not in Error, or another operator was faster ({outcome.reason})."
            raise ProblemError(HTTPStatus.CONFLICT, text)
        return outcome.record
