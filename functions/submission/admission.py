"""The admission of orders from the queue `submissions` and from an event hub: an order becomes a task.

Every check of the API is repeated, because a queue is no trust boundary. Times are UTC.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from pydantic import ValidationError

from functions.core.definition.workflow_definition import UnfitOrderError, Workflow, WorkflowRegistry
from functions.core.derive import needs_run
from functions.core.error_texts import faults_text
from functions.core.json_values import UnfitValueError
from functions.core.record import CHILD_PREFIX, Order, RuleSettings, TaskRecord
from functions.core.rules import admit
from functions.messaging.announcer import Announcer
from functions.messaging.message_format import (
    Identity,
    MessageError,
    QueueMessage,
    SubmissionMessage,
    payload_text,
    read_message,
)
from functions.messaging.queue_names import SUBMISSIONS_QUEUE
from functions.messaging.received_messages import DeliveryCounts, Put, copy_of
from functions.messaging.rejected_messages import RejectedMessages, named_task
from functions.messaging.reservations import find_reservation, reject_reservation
from functions.storage.table_contract import ReservedError, TransientStorageError, UnwritableRowsError
from functions.storage.task_storage import TaskStorage
from functions.telemetry.spans import current_traceparent

_log = logging.getLogger(__name__)

_RUN_ID_CHARACTERS = 8
#: The first wait for a version that is not deployed. It doubles with each wait.
_FIRST_WAIT = timedelta(seconds=10)
_MOST_DOUBLINGS = 8
_LONGEST_WAIT = timedelta(minutes=30)
#: Waits for a version: a day in all.
_MOST_WAITS = 55
#: Tries to insert a task while its reservation changes.
_MOST_TRIES = 5


class AdmissionResult(StrEnum):
    """The result of an admission."""

    RECORDED = "recorded"
    #: The same order was recorded before.
    KNOWN = "known"
    REJECTED = "rejected"
    #: The version is not deployed here, and the message was sent to the queue again.
    PUT_BACK = "put back"


class _RejectedError(Exception):
    """A message cannot become a task. The text is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Admits orders. Its methods raise `StorageError` and `SendError`.

    Notices may go to `reply_queues`. `finders` are the gates of the Agents that can look up effects.
    Finished tasks are deleted after `retention`.
    """

    storage: TaskStorage
    registry: WorkflowRegistry
    rejected: RejectedMessages
    announcer: Announcer
    put: Put
    settings: RuleSettings
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    reply_queues: Collection[str]
    retention: timedelta
    finders: frozenset[str] = frozenset()

    async def take(
        self, message: QueueMessage, *, source: str = SUBMISSIONS_QUEUE, enqueued_at: datetime | None = None
    ) -> AdmissionResult:
        """Record an order and request its run, reject it, or send it to the queue again.

        `source` is the queue or the hub. `enqueued_at` is the time at which a hub received an event: it may
        deliver an event again after days.
        """
        submitted = None
        try:
            submitted = read_message(SubmissionMessage, message.body)
            sent_at = self.now() if enqueued_at is None else min(enqueued_at, submitted.submitted_at)
            record, is_new = await self._admit(submitted, is_old=sent_at < self.now() - self.retention)
            if record is None:
                await self._put_back(message, submitted)
                return AdmissionResult.PUT_BACK
        except (_RejectedError, MessageError, UnwritableRowsError) as fault:
            _log.warning("message %s rejected: %s", message.message_id, fault, exc_info=fault.__cause__)
            task, _ = named_task(message.body)
            await self.rejected.reject(source, message, str(fault), task=task)
            if submitted is not None:
                reason = str(fault) if isinstance(fault, _RejectedError) else "It cannot be recorded."
                await reject_reservation(self.storage, submitted, reason)
            return AdmissionResult.REJECTED
        if not is_new and needs_run(record):
            await self.announcer.request_run(record)  # a crash may have prevented the request
        return AdmissionResult.RECORDED if is_new else AdmissionResult.KNOWN

    async def _put_back(self, message: QueueMessage, submitted: SubmissionMessage) -> None:
        """Send an order again later, because another instance may have its version."""
        version = "" if submitted.version is None else f" of version {submitted.version}"
        waits = DeliveryCounts.of(message).put_back
        if waits >= _MOST_WAITS:
            raise _RejectedError(f"workflow: no '{submitted.workflow}'{version} was deployed for a day")
        wait = min(_FIRST_WAIT * 2 ** min(waits, _MOST_DOUBLINGS), _LONGEST_WAIT)
        copy = copy_of(message, DeliveryCounts(put_back=waits + 1))
        await self.put(SUBMISSIONS_QUEUE, copy, self.now() + wait)
        _log.warning(
            "task %s waits: no '%s'%s is deployed here", submitted.task_id, submitted.workflow, version
        )

    async def _admit(
        self, submitted: SubmissionMessage, *, is_old: bool = False
    ) -> tuple[TaskRecord | None, bool]:
        """Return the record of the task and whether it is new. Raises `_RejectedError`.

        The record is None if there is none, and the version is not deployed here. An order that is on record
        is returned, even if the deployed version rejects it. An old event without a task is rejected: it may
        have had a task that was deleted, and another task would repeat the steps.
        """
        if submitted.task_id.startswith(CHILD_PREFIX):
            raise _RejectedError(f"id: ids with {CHILD_PREFIX} are for child tasks")
        workflow = self.registry.find(submitted.workflow, submitted.version)
        fault: _RejectedError | None = None
        try:
            new = None if workflow is None or is_old else self._order(submitted, workflow)
        except _RejectedError as error:
            new, fault = None, error
        if new is None:
            record, is_new = await self.storage.load(submitted.task_id), False
            if is_old and record is None:
                fault = _RejectedError("older than the retention of tasks: its task may have been deleted")
            if fault is not None and record is None:
                raise fault
        else:
            record, is_new = await self._insert(submitted, *new)
        if record is not None:
            _check_identity(submitted, (record.order.submitter, record.order.content))
        return record, is_new

    async def _insert(
        self, submitted: SubmissionMessage, order: Order, keys: tuple[str, ...]
    ) -> tuple[TaskRecord, bool]:
        """Insert a task in the place of its reservation, or of the record of a rejected order."""
        new = admit(order, self.now(), self.settings)
        etag = submitted.reservation
        for _ in range(_MOST_TRIES):
            try:
                return await self.storage.admit(new, keys, reserved=etag)
            except ReservedError:
                found = await find_reservation(self.storage, order.task)
            if found is not None and found.rejected is None:
                _check_identity(submitted, found.identity)
            etag = None if found is None else found.etag
        raise TransientStorageError(f"task {order.task}: its reservation changes at this moment")

    def _order(self, submitted: SubmissionMessage, workflow: Workflow[Any]) -> tuple[Order, tuple[str, ...]]:
        """Return an order and its search keys. Raises `_RejectedError`."""
        if submitted.reply_to is not None and submitted.reply_to not in self.reply_queues:
            raise _RejectedError("reply_to: not a queue for notices")
        try:
            order = workflow.new_order(
                submitted.task_id,
                self.new_id()[:_RUN_ID_CHARACTERS],
                payload_text(submitted.payload),
                min(submitted.submitted_at, self.now()),  # the sender's clock may be ahead
                finders=self.finders,
                content=submitted.digest,
                submitter=submitted.submitter,
                reply_to=submitted.reply_to,
                correlation_id=submitted.correlation_id,
                traceparent=current_traceparent(),
            )
            return order, workflow.search_keys(order.payload, len(order.specs))
        except ValidationError as error:
            raise _RejectedError(faults_text(error, levels=1)) from None  # names below may be secret
        except (UnfitValueError, UnfitOrderError) as error:
            raise _RejectedError(str(error)) from error.__cause__
        except Exception as error:  # a validator of the payload's model may raise anything
            raise _RejectedError("Its payload cannot be read.") from error


def _check_identity(submitted: SubmissionMessage, recorded: Identity) -> None:
    if recorded != submitted.identity:
        raise _RejectedError(f"another order is recorded as {submitted.task_id}")
