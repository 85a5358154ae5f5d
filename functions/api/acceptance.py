"""Accepts orders: gives them ids, checks whether they are recorded already, and submits them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from http import HTTPStatus

from pydantic import BaseModel

from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage, check_payload
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.web.callers import Caller
from functions.web.problems import FieldFault, ProblemError

#: The answer to an order whose id is another order's.
ID_IS_TAKEN = "Another order is known under this id."


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is valid, and not submitted yet. An id that is new can't be recorded already."""

    message: SubmissionMessage
    id_is_new: bool


class Acceptance:
    """Takes orders from callers and tells how far they are."""

    def __init__(self, ports: Ports, reply_queues: Collection[str]) -> None:
        self._ports = ports
        self._reply_queues = reply_queues

    async def submit(
        self, workflow: Workflow, task: TaskId | None, body: BaseModel, caller: Caller
    ) -> TaskId:
        """Submit an order under the caller's id, or a new one; the same order again is accepted again.

        Raises `ProblemError` 409 when another order is recorded under that id.
        """
        draft = self.draft(workflow, task, body, caller)
        if await self.submit_unless_known(draft) != draft.message.digest:
            raise ProblemError(HTTPStatus.CONFLICT, ID_IS_TAKEN)
        return draft.message.task_id

    async def find(self, workflow: Workflow, task: TaskId, caller: Caller) -> TaskRecord:
        """Read an order. Raises `ProblemError` 404 when there is none in this resource for this caller."""
        stored = await self._ports.store.load(task)
        if (
            stored is None
            or stored.record.order.workflow != workflow.name
            or not caller.may_see(stored.record.order.submitter)
        ):
            raise ProblemError(HTTPStatus.NOT_FOUND, "No order is recorded under this id (yet).")
        return stored.record

    def draft(self, workflow: Workflow, task: TaskId | None, body: BaseModel, caller: Caller) -> Draft:
        """Make the order that a body asks for, under a new id when there is none.

        Raises `ProblemError` and `PayloadTooLargeError`.
        """
        fields = body.model_dump(mode="json", exclude_unset=True)
        reply_to = fields.get("reply_to")
        if reply_to is not None and reply_to not in self._reply_queues:
            fault = FieldFault(field="reply_to", reason="not a queue that replies may go to")
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
        message = SubmissionMessage(
            task_id=task or TaskId(self._ports.new_id()),
            workflow=workflow.name,
            version=workflow.version,
            payload={name: value for name, value in fields.items() if name not in ENVELOPE_FIELDS},
            submitter=caller.name,
            submitted_at=self._ports.clock.now(),
            reply_to=reply_to,
            correlation_id=fields.get("correlation_id"),
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
