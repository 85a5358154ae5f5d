"""Tasks that are written to the state store; the rules of the core make each record from its events."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Self

from functions.core.definition.workflow_definition import Workflow
from functions.core.record import RuleSettings, TaskRecord
from functions.core.rules import admit, apply
from functions.core.task_events import (
    Due,
    Event,
    OutcomeKind,
    Rejection,
    Resubmitted,
    StepDeferred,
    StepEnded,
    StepStarted,
    Suspended,
)
from functions.storage.record_rows import admission
from functions.storage.row_keys import shard_of
from functions.storage.table_contract import RefusedChanges, Table
from local.callers.client import SAMPLE_DELIVERY, SAMPLE_ORDER

#: One recovery; the next one is exhausted.
_SETTINGS = RuleSettings(start_within=timedelta(minutes=1), skew=timedelta(0), threshold=1, extended_waits=())


class Story:
    """One task, made event by event; times are in seconds after its submission."""

    def __init__(self, record: TaskRecord) -> None:
        self._record = record
        self._start = record.order.submitted_at

    @classmethod
    def begin(
        cls,
        workflow: Workflow[Any],
        task: str,
        at: datetime,
        *,
        payload: dict[str, object] | None = None,
        reply_to: str | None = None,
    ) -> Self:
        """Submit an order, by default with the payload of the samples."""
        content = payload or (SAMPLE_ORDER if workflow.name == "orders" else SAMPLE_DELIVERY)
        order = workflow.new_order(
            task,
            uuid.uuid4().hex,
            json.dumps(content),
            at,
            submitter="function-key",
            reply_to=reply_to,
            traceparent=f"00-{uuid.uuid4().hex}-00f067aa0ba902b7-01",
        )
        return cls(admit(order, at, _SETTINGS))

    async def write(self, table: Table, shards: int) -> None:
        """Write the rows in one transaction, so that no Supervisor sees an earlier state of the task."""
        changes, _ = admission(replace(self._record, outbox=()), uuid.uuid4().hex)
        answer = await table.send(shard_of(self._record.order.task, shards), changes)
        assert not isinstance(answer, RefusedChanges), answer

    def begun(self, step: str, at: float, *, within: float | None = None) -> None:
        """Start a step, with its own time limit or with another one."""
        complete_by = at + (within or self._record.order.by_name[step].complete_within)
        started = StepStarted(
            epoch=self._record.epoch,
            run=self._record.run,
            step=step,
            start_id=f"{step}.{at}",
            complete_by=self._at(complete_by),
            request=json.dumps({"step": step}),
        )
        self._apply(at, started)

    def done(self, step: str, at: float) -> None:
        """Complete a step."""
        self._end(step, at, OutcomeKind.DONE, result="{}")

    def refused(self, step: str, at: float, error: str) -> None:
        """Refuse a step permanently."""
        self._end(step, at, OutcomeKind.REFUSED, error=error)

    def unknown(self, step: str, at: float, error: str) -> None:
        """End a start of a step without an outcome."""
        self._end(step, at, OutcomeKind.UNKNOWN, error=error)

    def deferred(self, step: str, at: float) -> None:
        """Defer a step behind its closed gate."""
        self._apply(at, StepDeferred(epoch=self._record.epoch, step=step))

    def overdue(self, at: float) -> None:
        """Recover the overdue task, or stop it after the recovery."""
        self._apply(at, Due(may_recover=True))

    def resubmitted(self, at: float, reason: str) -> None:
        """Resubmit the task."""
        self._apply(at, Resubmitted(epoch=self._record.epoch, who="operator", reason=reason))

    def suspended(self, at: float) -> None:
        """Suspend the task, because its version is not deployed."""
        order = self._record.order
        reason = f"version {order.version} of workflow {order.workflow} is not deployed"
        self._apply(at, Suspended(reason=reason))

    def _end(
        self, step: str, at: float, kind: OutcomeKind, *, result: str | None = None, error: str | None = None
    ) -> None:
        record = self._record
        ended = StepEnded(
            epoch=record.epoch,
            step=step,
            direction=record.direction,
            start_id=record.current(step).start_id or "",
            kind=kind,
            result=result,
            error=error,
        )
        self._apply(at, ended)

    def _at(self, seconds: float) -> datetime:
        return self._start + timedelta(seconds=seconds)

    def _apply(self, at: float, event: Event) -> None:
        before, after = self._record, apply(self._record, event, self._at(at), _SETTINGS)
        assert not isinstance(after, Rejection), f"{event} was rejected: {after}"
        assert after is not before, f"{event} changed nothing"
        self._record = after
