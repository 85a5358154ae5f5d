"""Tasks for the screenshots, written to the state store by the pattern's own rules.

Every record is what the application would have written at that time; none is made by hand.
"""

from __future__ import annotations

import json
import uuid
from datetime import datetime, timedelta
from typing import Self, TypedDict

from azure.data.tables.aio import TableClient

from functions.pattern.announcements import announcements
from functions.pattern.definition import Workflow
from functions.pattern.events import (
    Claimed,
    Event,
    GivenUp,
    Parked,
    Recovered,
    Resubmitted,
    StepCompleted,
    StepFailed,
    StepStarted,
)
from functions.pattern.identity import Epoch, SchedulerId, StartId, StepName, TaskId, new_birth, scheduler_id
from functions.pattern.occurrences import occurrences
from functions.pattern.records import Order, TaskRecord
from functions.pattern.refusals import Refused
from functions.pattern.transitions import admit, apply
from functions.store.entities import entity, outbox_entity, task_entity
from functions.store.index_entities import index_entity
from functions.store.keys import epoch_row, order_row, shard_key, shard_number, step_row
from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER

_START_WITHIN = 60.0
_PAYLOADS = {"orders": SAMPLE_ORDER}


class _Ours(TypedDict):
    epoch: Epoch
    scheduler: SchedulerId


class Story:
    """One task, built event by event; times are in seconds after its submission."""

    def __init__(self, record: TaskRecord) -> None:
        self._record = record
        self._begin = record.order.submitted_at
        self._announcements = [*announcements(None, record)]
        #: The times and the changes that are counted.
        self.occurred = [(self._begin, occurrences(None, record))]

    @classmethod
    def begin(cls, workflow: Workflow, task: str, at: datetime, *, reply_to: str | None = None) -> Self:
        """Submit an order."""
        order = Order(
            task=TaskId(task),
            birth=new_birth(uuid.uuid4().hex),
            workflow=workflow.name,
            workflow_version=workflow.version,
            shape=workflow.shape,
            payload=json.dumps(_PAYLOADS.get(workflow.name, SAMPLE_DELIVERY)).encode(),
            digest=uuid.uuid4().hex,
            submitter="function-key",
            submitted_at=at,
            reply_to=reply_to,
            traceparent=f"00-{uuid.uuid4().hex}-00f067aa0ba902b7-01",
        )
        return cls(admit(order, pick_up_by=at + timedelta(seconds=_START_WITHIN)))

    async def write(self, table: TableClient, shards: int) -> None:
        """Write the rows in one transaction, so that no Supervisor sees an earlier state of the task."""
        record, task = self._record, self._record.order.task
        rows = [
            task_entity(record.task, uuid.uuid4().hex),
            entity(order_row(task), record.order),
            *(entity(step_row(task, number), step) for number, step in enumerate(record.steps)),
            *(entity(epoch_row(task, closed.epoch), closed) for closed in record.history),
            index_entity(record),
            *(outbox_entity(each) for each in self._announcements),
        ]
        shard = shard_key(shard_number(task, shards))
        await table.submit_transaction(("create", {"PartitionKey": shard, **row}) for row in rows)

    async def claimed(self, at: float) -> None:
        """Let a Scheduler claim the task."""
        await self._apply(at, Claimed(**self._ours(), start_by=self._start_by(at)))

    async def begun(self, step: str, at: float, *, within: float | None = None) -> None:
        """Start a step, which may take as long as it says, or that long."""
        shape = self._record.step(StepName(step)).shape
        complete_by = self._at(at + (within or shape.complete_within))
        started = StepStarted(
            **self._ours(),
            step=StepName(step),
            complete_by=complete_by,
            activity=1,
            start_id=StartId(f"{step}.{at}"),
        )
        await self._apply(at, started)

    async def done(self, step: str, at: float) -> None:
        """Complete a step."""
        ended = StepCompleted(**self._ours(), step=StepName(step), result=b"{}", start_by=self._start_by(at))
        await self._apply(at, ended)

    async def refused(self, step: str, at: float, error: str) -> None:
        """Let a service refuse a step permanently."""
        ended = StepFailed(**self._ours(), step=StepName(step), error=error, start_by=self._start_by(at))
        await self._apply(at, ended)

    async def recovered(self, at: float) -> None:
        """Let the Supervisor recover the overdue task."""
        await self._apply(at, Recovered(epoch=self._epoch, start_by=self._start_by(at)))

    async def given_up(self, at: float, reason: str, *, unknown: bool = False) -> None:
        """Let the Supervisor give the task up, or hold it as an outcome is unknown."""
        event = GivenUp(epoch=self._epoch, reason=reason, hold=unknown, start_by=self._start_by(at))
        await self._apply(at, event)

    async def resubmitted(self, at: float, reason: str) -> None:
        """Let an operator resubmit the task."""
        event = Resubmitted(epoch=self._epoch, who="operator", reason=reason, start_by=self._start_by(at))
        await self._apply(at, event)

    async def parked(self, at: float) -> None:
        """Let a Scheduler find that the task's version is not deployed."""
        order = self._record.order
        reason = f"version {order.workflow_version} of '{order.workflow}' is not deployed here"
        await self._apply(at, Parked(**self._ours(), reason=reason))

    @property
    def _epoch(self) -> Epoch:
        return self._record.task.epoch

    def _at(self, seconds: float) -> datetime:
        return self._begin + timedelta(seconds=seconds)

    def _start_by(self, at: float) -> datetime:
        return self._at(at + _START_WITHIN)

    def _ours(self) -> _Ours:
        """Return the fields that all of a Scheduler's events share."""
        return {"epoch": self._epoch, "scheduler": scheduler_id(self._record.order.task, self._epoch)}

    async def _apply(self, at: float, event: Event) -> None:
        outcome = apply(self._record, event, self._at(at))
        assert not isinstance(outcome, Refused), f"{event} was refused: {outcome.reason}"
        self._announcements += announcements(self._record, outcome)
        self.occurred.append((self._at(at), occurrences(self._record, outcome)))
        self._record = outcome
