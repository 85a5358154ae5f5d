"""Accepts what callers submit: gives it ids, checks whether it is recorded already, and sends it on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from functions.api.drafts import Draft, Drafts
from functions.pattern.definition import Workflow
from functions.pattern.events import Cancelled
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import KnownOrder, Stored
from functions.telemetry.spans import current_traceparent, decision_span
from functions.web.callers import Caller
from functions.web.problems import ProblemError

#: The answer to a submission whose id is another's.
ID_IS_TAKEN = "Something else is known under this id."

#: Why a task can't be cancelled, as its caller is told.
_NOT_CANCELLED = {
    RefusalReason.FINISHED: "It is in Error: an operator decides what becomes of it.",
    RefusalReason.PARKED_BY_OPERATOR: "An operator has parked it: ask the operator.",
    RefusalReason.NOT_CANCELLABLE: "It was processed, and can't be cancelled any more.",
    RefusalReason.CHILD: "It is a step of another: cancel that instead.",
}


class Acceptance:
    """Takes orders from callers, tells how far they are, and cancels them.

    `start_within` is in seconds: by then a Scheduler must have taken a task that is cancelled.
    """

    def __init__(self, ports: Ports, reply_queues: Collection[str], start_within: float) -> None:
        self.drafts = Drafts(ports.clock, ports.new_id, reply_queues)
        self._ports = ports
        self._start_within = timedelta(seconds=start_within)

    async def submit(self, workflow: Workflow, task: TaskId | None, sent: Any, caller: Caller) -> TaskId:
        """Submit an order under the caller's id, or a new one; the same order again is accepted again.

        Raises as `Drafts` do, and `ProblemError` 409 when another order is recorded under that id.
        """
        draft = self.drafts.alone(workflow, task, sent, caller)
        known = None if draft.id_is_new else await self.known(draft)
        if known is None:
            await self._ports.submissions.submit(draft.message)
        elif not draft.is_same_as(known):
            raise ProblemError(HTTPStatus.CONFLICT, ID_IS_TAKEN)
        return draft.message.task_id

    async def submit_all(self, drafts: Sequence[Draft]) -> Sequence[BaseException | None]:
        """Submit orders of one workflow; tell of each why it may not be durable."""
        return await self._ports.submissions.submit_all([draft.message for draft in drafts])

    async def known(self, draft: Draft) -> KnownOrder | None:
        """Tell which order is recorded under the draft's id. Raises `TransientError`."""
        return await self._ports.store.order(draft.message.task_id)

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
