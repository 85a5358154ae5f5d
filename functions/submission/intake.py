"""Takes submissions in: check, record, start the Scheduler."""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import replace
from datetime import timedelta

from pydantic import ValidationError

from functions.pattern.definition import Registry
from functions.pattern.errors import PayloadTooLargeError, UnwritableError
from functions.pattern.identity import FIRST_EPOCH, new_birth
from functions.pattern.messages import SUBMISSIONS_QUEUE, SubmissionMessage, order_of
from functions.pattern.ports import Ports, Schedulers
from functions.pattern.records import TaskRecord
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Admission, Stored
from functions.pattern.transitions import admit
from functions.telemetry.spans import current_traceparent

_log = logging.getLogger(__name__)


class _RejectedError(Exception):
    """A message can't become a task; the text is the reason."""


class Intake:
    """Makes tasks of messages. `pick_up_within` is in seconds: by then a Scheduler must have claimed.

    A queue is no trust boundary: what the API checked is checked again.
    """

    def __init__(
        self, ports: Ports, registry: Registry, reply_queues: Collection[str], pick_up_within: float
    ) -> None:
        self._ports = ports
        self._registry = registry
        self._reply_queues = reply_queues
        self._pick_up_within = timedelta(seconds=pick_up_within)

    async def take(self, message_id: str, body: bytes, schedulers: Schedulers) -> None:
        """Record the order and start its Scheduler; a message that can't be used is recorded as rejected.

        A redelivered message starts the Scheduler at most. Raises only when a service fails.
        """
        try:
            stored = await self._record(body)
        except _RejectedError as rejection:
            _log.warning("message %s rejected: %s", message_id, rejection)
            await self._ports.rejected.reject(SUBMISSIONS_QUEUE, message_id, body, str(rejection))
            return
        task = stored.record.task
        if task.process_state is ProcessState.PENDING and task.epoch == FIRST_EPOCH:
            # Later epochs are asked for by their own message.
            await schedulers.start(task.order_id, task.epoch, stored.record.queued)

    async def _record(self, body: bytes) -> Stored:
        record = self._task_record(body)
        try:
            admitted = await self._ports.store.admit(record)
        except UnwritableError as error:
            raise _RejectedError(str(error)) from None
        if admitted.admission is Admission.CONFLICT:
            raise _RejectedError(f"another order is known as {record.order.task}")
        return admitted.stored

    def _task_record(self, body: bytes) -> TaskRecord:
        try:
            message = SubmissionMessage.model_validate_json(body)
        except ValidationError as error:
            raise _RejectedError(_reason(error)) from None
        if message.reply_to is not None and message.reply_to not in self._reply_queues:
            raise _RejectedError("reply_to: not a queue that replies may go to")
        workflow = self._registry.find(message.workflow)
        if workflow is None:
            raise _RejectedError("workflow: no such workflow")
        try:
            order = order_of(message, workflow, new_birth(self._ports.new_id()))
        except (ValidationError, PayloadTooLargeError) as error:
            raise _RejectedError(_reason(error)) from None
        order = replace(order, traceparent=current_traceparent())
        return admit(order, pick_up_by=self._ports.clock.now() + self._pick_up_within)


def _reason(error: ValidationError | PayloadTooLargeError) -> str:
    if isinstance(error, PayloadTooLargeError):
        return str(error)
    faults = error.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{'.'.join(map(str, fault['loc'])) or 'message'}: {fault['msg']}" for fault in faults)
