"""Takes submissions in: check, record, start the Scheduler."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from pydantic import ValidationError

from functions.messages.reading import (
    NotAMessageError,
    faults_of,
    read_message,
)
from functions.pattern.contents import may_have_secrets
from functions.pattern.definition import Registry, Workflow
from functions.pattern.errors import PayloadTooLargeError, UnfitOrderError, UnwritableError
from functions.pattern.identity import CHILD_PREFIX, is_child, new_birth
from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage, order_of, put_back_for
from functions.pattern.ports import Ports, SchedulerStarts
from functions.pattern.records import TaskRecord
from functions.pattern.rejected import About, Content
from functions.pattern.sent_again import Counts
from functions.pattern.store_ports import Admission, Admitted
from functions.pattern.transitions import admit
from functions.telemetry.spans import current_traceparent

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The queue or hub of a message; `enqueued_at` (UTC) is a hub's, which may deliver again after days."""

    name: str
    enqueued_at: datetime | None = None


SUBMISSIONS = Origin(name=SUBMISSIONS_QUEUE)


class Disposition(StrEnum):
    """The outcome of an intake."""

    RECORDED = "recorded"
    KNOWN = "known"
    REJECTED = "rejected"
    #: The workflow's version is not deployed here: the message was sent to the queue again.
    PUT_BACK = "put back"


class _RejectedError(Exception):
    """A message can't become a task; the text is the reason."""


class Intake:
    """Makes tasks of messages. `pick_up_within` is in seconds: by then a Scheduler must have claimed.

    A queue is no trust boundary, and an event hub less so: what the API checked is checked again. What has
    ended is kept for `retention_days`: of an order that is older, nobody knows whether it was done.
    """

    def __init__(
        self,
        ports: Ports,
        registry: Registry,
        reply_queues: Collection[str],
        *,
        pick_up_within: float,
        retention_days: float,
    ) -> None:
        self._ports = ports
        self._registry = registry
        self._reply_queues = reply_queues
        self._pick_up_within = timedelta(seconds=pick_up_within)
        self._retention = timedelta(days=retention_days)

    async def take(
        self, message_id: str, content: Content, schedulers: SchedulerStarts, origin: Origin = SUBMISSIONS
    ) -> Disposition:
        """Record an order and start its Scheduler, reject it, or put it back. Raises if a service fails."""
        about = About()
        try:
            message = read_message(SubmissionMessage, content.body)
            about = About(task=message.task_id)
            _check_id(message)
            await self._check_age(message, origin)
            self._check_reply_to(message)
            workflow = self._registry.find(message.workflow, message.version)
            if workflow is None:
                await self._wait_for_version(message_id, content, message)
                return Disposition.PUT_BACK
            admitted = await self._record(message, workflow)
        except (_RejectedError, NotAMessageError) as rejection:
            reason = str(rejection)
            about = rejection.about if isinstance(rejection, NotAMessageError) else about
            _log.warning("message %s rejected: %s", message_id, reason, exc_info=rejection.__cause__)
            await self._ports.rejected.reject(
                origin.name, message_id, content.body, reason, content.labels, about=about
            )
            return Disposition.REJECTED
        record = admitted.stored.record
        if record.task.awaits_first_turn:  # later epochs and runs are asked for by their own message
            await schedulers.start(record.task.order_id, record.task.epoch, record.queued)
        new = admitted.admission is Admission.RECORDED
        return Disposition.RECORDED if new else Disposition.KNOWN

    async def _wait_for_version(self, message_id: str, content: Content, message: SubmissionMessage) -> None:
        version = "" if message.version is None else f" of version {message.version}"
        counts = Counts.of(content)
        delay = put_back_for(counts.put_back)  # longer each time
        if delay is None:
            raise _RejectedError(f"workflow: no '{message.workflow}'{version} was deployed for a day")
        # A queue takes 64 KB of properties, a hub far more; only the trace is read.
        light = replace(content, labels=content.labels.within(32 * 1024))
        sent_as, again = counts.once_put_back().sent_with(message_id, light)
        not_before = self._ports.clock.now() + delay
        await self._ports.postbox.put(SUBMISSIONS_QUEUE, sent_as, again, not_before=not_before)
        _log.warning("task %s waits: no '%s'%s is deployed here", message.task_id, message.workflow, version)

    async def _record(self, message: SubmissionMessage, workflow: Workflow) -> Admitted:
        record = self._task_record(message, workflow)
        try:
            admitted = await self._ports.store.admit(record)
        except UnwritableError as error:
            raise _RejectedError(str(error)) from None
        if admitted.admission is Admission.CONFLICT:
            raise _RejectedError(f"other content is known as {record.order.task}")
        return admitted

    async def _check_age(self, message: SubmissionMessage, origin: Origin) -> None:
        """Reject an order of a hub whose task may have ended and been deleted; a recorded one is known."""
        if origin.enqueued_at is None:
            return
        oldest = self._ports.clock.now() - self._retention
        is_old = min(origin.enqueued_at, message.submitted_at) < oldest
        if is_old and await self._ports.store.order(message.task_id) is None:
            raise _RejectedError("too old to know whether it was done: such tasks are deleted")

    def _check_reply_to(self, message: SubmissionMessage) -> None:
        if message.reply_to is not None and message.reply_to not in self._reply_queues:
            raise _RejectedError("reply_to: not a queue that replies may go to")

    def _task_record(self, message: SubmissionMessage, workflow: Workflow) -> TaskRecord:
        try:
            order = order_of(message, workflow, new_birth(self._ports.new_id()))
        except ValidationError as error:
            faults = faults_of(error)
            if may_have_secrets(workflow.payload):  # a name below a secret field is secret, too
                faults = tuple(replace(each, place=each.place[:1]) for each in faults)
            raise _RejectedError("; ".join(map(str, faults))) from error.__cause__
        except (PayloadTooLargeError, UnfitOrderError) as error:
            raise _RejectedError(str(error)) from error.__cause__
        order = replace(order, traceparent=current_traceparent())
        return admit(order, pick_up_by=self._ports.clock.now() + self._pick_up_within)


def _check_id(message: SubmissionMessage) -> None:
    if is_child(message.task_id):
        raise _RejectedError(f"id: what begins with {CHILD_PREFIX} is the application's own")
