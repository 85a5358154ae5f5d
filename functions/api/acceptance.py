"""Accepts what callers submit: gives it ids, checks whether it is recorded already, and sends it on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.events import Cancelled
from functions.pattern.identity import CHILD_PREFIX, TaskId
from functions.pattern.messages import SubmissionMessage, check_payload
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import Stored
from functions.telemetry.spans import current_traceparent
from functions.telemetry.tasks import decision_span
from functions.web.callers import Caller
from functions.web.problems import FieldFault, ProblemError, faults_in

#: The answer to a submission whose id is another's.
ID_IS_TAKEN = "Something else is known under this id."

#: Why a task can't be cancelled, as its caller is told.
_NOT_CANCELLED = {
    RefusalReason.FINISHED: "It is in Error: an operator decides what becomes of it.",
    RefusalReason.PARKED_BY_OPERATOR: "An operator has parked it: ask the operator.",
    RefusalReason.NOT_CANCELLABLE: "It was processed, and can't be cancelled any more.",
}


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is valid, and not submitted yet. An id that is new can't be recorded already."""

    message: SubmissionMessage
    id_is_new: bool


class Acceptance:
    """Takes orders from callers, tells how far they are, and cancels them.

    `start_within` is in seconds: by then a Scheduler must have taken a task that is cancelled.
    """

    def __init__(self, ports: Ports, reply_queues: Collection[str], start_within: float) -> None:
        self._ports = ports
        self._reply_queues = reply_queues
        self._start_within = timedelta(seconds=start_within)

    async def submit(
        self, workflow: Workflow, task: TaskId | None, sent: Mapping[str, Any], caller: Caller
    ) -> TaskId:
        """Submit an order under the caller's id, or a new one; the same order again is accepted again.

        Raises as `draft` does, and `ProblemError` 409 when another order is recorded under that id.
        """
        try:
            draft = self.draft(workflow, task, sent, caller)
        except ValidationError as error:
            raise RequestValidationError(faults_in("body", error)) from None
        if await self.submit_unless_known(draft) != draft.message.digest:
            raise ProblemError(HTTPStatus.CONFLICT, ID_IS_TAKEN)
        return draft.message.task_id

    async def find(self, workflow: Workflow, task: TaskId, caller: Caller) -> TaskRecord:
        """Read an order. Raises `ProblemError` 404 when there is none in this resource for this caller."""
        return (await self._stored(workflow, task, caller)).record

    async def cancel(self, workflow: Workflow, task: TaskId, caller: Caller) -> None:
        """Have everything undone that was done for an order. Raises `ProblemError` 404 as above, and 409."""
        stored = await self._stored(workflow, task, caller)
        with decision_span(stored.record, "cancel"):
            event = Cancelled(
                who=caller.name,
                reason="cancelled by its caller",
                by_operator=False,
                start_by=self._ports.clock.now() + self._start_within,
                traceparent=current_traceparent(),
            )
            outcome = await self._ports.store.change(task, event, read=stored)
        if isinstance(outcome, Refused):
            text = _NOT_CANCELLED.get(outcome.reason, f"This can't be done now ({outcome.reason}).")
            raise ProblemError(HTTPStatus.CONFLICT, text)

    async def _stored(self, workflow: Workflow, task: TaskId, caller: Caller) -> Stored:
        stored = await self._ports.store.load(task)
        if (
            stored is None
            or stored.record.order.workflow != workflow.name
            or not caller.may_see(stored.record.order.submitter)
        ):
            raise ProblemError(HTTPStatus.NOT_FOUND, f"No {workflow.noun} is recorded under this id (yet).")
        return stored

    def draft(
        self, workflow: Workflow, task: TaskId | None, sent: Mapping[str, Any], caller: Caller
    ) -> Draft:
        """Make the order that is asked for, under a new id when there is none.

        `sent` is the caller's own JSON, which its model took: what that made of it is another deployment's
        to make anew. Raises `ProblemError`, and as `check_payload` does.
        """
        if not isinstance(sent, Mapping):
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "It must be a JSON object.")
        reply_to = sent.get("reply_to")
        if reply_to is not None and reply_to not in self._reply_queues:
            fault = FieldFault(field="reply_to", reason="not a queue that replies may go to")
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
        if task is not None and task.startswith(CHILD_PREFIX):
            fault = FieldFault(field="id", reason=f"what begins with {CHILD_PREFIX} is the application's own")
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
        message = SubmissionMessage(
            task_id=task or TaskId(self._ports.new_id()),
            workflow=workflow.name,
            version=workflow.version,
            payload={name: value for name, value in sent.items() if name not in ENVELOPE_FIELDS},
            submitter=caller.name,
            submitted_at=self._ports.clock.now(),
            reply_to=reply_to,
            correlation_id=sent.get("correlation_id"),
        )
        try:
            check_payload(message, workflow)
        except UnicodeEncodeError:
            # Half of a surrogate pair is JSON, and a plain `str`, but no text that can be kept.
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some text is not Unicode.") from None
        return Draft(message, id_is_new=task is None)

    async def submit_unless_known(self, draft: Draft) -> str | None:
        """Give the digest of the order under this id: one that is recorded, or this, submitted now.

        None when the recorded one is another caller's, of which nothing more is told.
        """
        known = None if draft.id_is_new else await self._ports.store.order(draft.message.task_id)
        if known is not None:
            return known.digest if known.submitter == draft.message.submitter else None
        await self._ports.submissions.submit(draft.message)
        return draft.message.digest
