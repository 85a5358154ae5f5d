"""Accepts orders: names them, checks what is known of them, and submits them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from http import HTTPStatus

from pydantic import BaseModel

from functions.http.problems import FieldFault, ProblemError
from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.ports import Clock, StateStore, Submissions
from functions.pattern.records import Order, TaskRecord

#: What a caller is told whose order is not the one that stands under its id.
ID_IS_TAKEN = "Another order is known under this id."

#: Who submits, as long as function keys are all that callers show.
_KEY_HOLDER = "function-key"


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is valid, and not submitted yet. One whose id is new can't be known."""

    message: SubmissionMessage
    order: Order
    id_is_new: bool


class Acceptance:
    """Takes orders from callers and tells how far they are."""

    def __init__(
        self,
        *,
        store: StateStore,
        submissions: Submissions,
        reply_queues: Collection[str],
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._store = store
        self._submissions = submissions
        self._reply_queues = reply_queues
        self._clock = clock
        self._new_id = new_id

    async def create(self, workflow: Workflow, body: BaseModel) -> TaskId:
        """Submit an order under a new id."""
        draft = self.draft(workflow, None, body)
        await self.submit_unless_known(draft)
        return draft.order.task

    async def put(self, workflow: Workflow, task: TaskId, body: BaseModel) -> None:
        """Submit an order under the caller's id; the same order again is accepted again.

        Raises `ProblemError` 409 when another order is recorded under that id.
        """
        draft = self.draft(workflow, task, body)
        if await self.submit_unless_known(draft) != draft.order.digest:
            raise ProblemError(HTTPStatus.CONFLICT, ID_IS_TAKEN)

    async def find(self, workflow: Workflow, task: TaskId) -> TaskRecord:
        """Read an order. Raises `ProblemError` 404 when there is none in this resource."""
        stored = await self._store.load(task)
        if stored is None or stored.record.order.workflow != workflow.name:
            raise ProblemError(HTTPStatus.NOT_FOUND, "No order is recorded under this id (yet).")
        return stored.record

    def draft(self, workflow: Workflow, task: TaskId | None, body: BaseModel) -> Draft:
        """Make the order that a body asks for, under a new id when there is none.

        Raises `ProblemError` and `PayloadTooLargeError`.
        """
        message = self._message(task or TaskId(self._new_id()), workflow, body)
        return Draft(message, order_of(message, workflow), id_is_new=task is None)

    async def submit_unless_known(self, draft: Draft) -> str:
        """Give the digest of the order under this id: one that is recorded, or this, submitted now."""
        known = None if draft.id_is_new else await self._store.load(draft.order.task)
        if known is not None:
            return known.record.order.digest
        await self._submissions.submit(draft.message, draft.order)
        return draft.order.digest

    def _message(self, task: TaskId, workflow: Workflow, body: BaseModel) -> SubmissionMessage:
        fields = body.model_dump(mode="json")
        reply_to = fields["reply_to"]
        if reply_to is not None and reply_to not in self._reply_queues:
            fault = FieldFault(field="reply_to", reason="not a queue that replies may go to")
            raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
        return SubmissionMessage(
            task_id=task,
            workflow=workflow.name,
            payload={name: value for name, value in fields.items() if name not in ENVELOPE_FIELDS},
            submitter=_KEY_HOLDER,
            submitted_at=self._clock.now(),
            reply_to=reply_to,
            correlation_id=fields["correlation_id"],
        )
