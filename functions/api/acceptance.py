"""Accepts orders: names them, checks what is known of them, and submits them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from http import HTTPStatus

from pydantic import BaseModel

from functions.http.problems import FieldFault, ProblemError
from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.identity import TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.ports import Clock, StateStore, Submissions
from functions.pattern.records import TaskRecord

#: Who submits, as long as function keys are all that callers show.
_KEY_HOLDER = "function-key"


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
        task = TaskId(self._new_id())
        message = self._message(task, workflow, body)
        await self._submissions.submit(message, order_of(message, workflow))
        return task

    async def put(self, workflow: Workflow, task: TaskId, body: BaseModel) -> None:
        """Submit an order under the caller's id; the same order again is accepted again.

        Raises `ProblemError` 409 when another order is recorded under that id.
        """
        message = self._message(task, workflow, body)
        order = order_of(message, workflow)
        known = await self._store.load(task)
        if known is None:
            await self._submissions.submit(message, order)
        elif known.record.order.digest != order.digest:
            raise ProblemError(HTTPStatus.CONFLICT, "Another order is known under this id.")

    async def find(self, workflow: Workflow, task: TaskId) -> TaskRecord:
        """Read an order. Raises `ProblemError` 404 when there is none in this resource."""
        stored = await self._store.load(task)
        if stored is None or stored.record.order.workflow != workflow.name:
            raise ProblemError(HTTPStatus.NOT_FOUND, "No order is recorded under this id (yet).")
        return stored.record

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
