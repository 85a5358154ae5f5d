"""Accepts what callers submit: gives it ids, checks whether it is recorded already, and sends it on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from functions.api.models import Envelope, EnvelopeAlone, InBatch
from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.events import Cancelled
from functions.pattern.identity import CHILD_PREFIX, TaskId, is_child
from functions.pattern.messages import SubmissionMessage, check_payload
from functions.pattern.ports import Clock, Ports
from functions.pattern.records import TaskRecord
from functions.pattern.refusals import RefusalReason, Refused
from functions.pattern.store_ports import KnownOrder, Stored
from functions.telemetry.spans import current_traceparent, decision_span
from functions.web.callers import Caller, Role
from functions.web.problems import FieldFault, ProblemError, faults_in


@dataclass(frozen=True, slots=True)
class Draft:
    """An order that is valid, and not submitted yet. An id that is new can't be recorded already."""

    message: SubmissionMessage
    id_is_new: bool

    def is_same_as(self, known: KnownOrder) -> bool:
        """Tell whether it is the order that is recorded: of another caller's, nothing is told."""
        return (known.submitter, known.digest) == (self.message.submitter, self.message.digest)


@dataclass(frozen=True, slots=True)
class Drafts:
    """Makes orders, whose notices may go to the `reply_queues`.

    Its methods raise `ProblemError`, `RequestValidationError`, `PayloadTooLargeError` and `UnfitOrderError`.
    """

    clock: Clock
    new_id: Callable[[], str]
    reply_queues: Collection[str]

    def alone(self, workflow: Workflow, task: TaskId | None, sent: Any, caller: Caller) -> Draft:
        """Make the order that was sent by itself, under the caller's id, or a new one."""
        extra = workflow.payload.model_config.get("extra")
        model = EnvelopeAlone if extra == "forbid" else Envelope
        return self._draft(workflow, sent, caller, model, task, place="body")

    def of_batch(self, workflow: Workflow, sent: Any, caller: Caller) -> Draft:
        """Make one order of a batch, which may hold its id."""
        task = sent.get("id") if isinstance(sent, dict) else None
        return self._draft(workflow, sent, caller, InBatch, task, place=workflow.noun)

    def _draft(
        self,
        workflow: Workflow,
        sent: Any,
        caller: Caller,
        model: type[Envelope],
        task: TaskId | None,
        *,
        place: str,
    ) -> Draft:
        if not isinstance(sent, dict):
            fault = {"type": "dict_type", "loc": (place,), "msg": "Input should be a JSON object"}
            raise RequestValidationError([fault])
        envelope, faults = Envelope(), list[dict[str, Any]]()
        try:
            envelope = model.model_validate({name: sent[name] for name in ENVELOPE_FIELDS if name in sent})
        except ValidationError as error:
            faults = faults_in(place, error)
        if envelope.reply_to is not None and envelope.reply_to not in self.reply_queues:
            raise _wrong("reply_to", "not a queue that replies may go to")
        if task is not None and not faults and is_child(task):
            raise _wrong("id", f"what begins with {CHILD_PREFIX} is the application's own")
        message = SubmissionMessage(
            task_id=task if task is not None and not faults else TaskId(self.new_id()),
            workflow=workflow.name,
            version=workflow.version,
            payload={name: value for name, value in sent.items() if name not in ENVELOPE_FIELDS},
            submitter=caller.name,
            submitted_at=self.clock.now(),
            reply_to=envelope.reply_to,
            correlation_id=envelope.correlation_id,
        )
        try:
            check_payload(message, workflow)
        except ValidationError as error:
            faults = [*faults_in(place, error), *faults]
        if faults:
            raise RequestValidationError(faults)
        return Draft(message, id_is_new=task is None)


def _wrong(field: str, reason: str) -> ProblemError:
    fault = FieldFault(field=field, reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])


ID_IS_TAKEN = "Something else is known under this id."

_NOT_CANCELLED = {
    RefusalReason.FINISHED: "It is in Error: an operator decides what becomes of it.",
    RefusalReason.PARKED_BY_OPERATOR: "An operator has parked it: ask the operator.",
    RefusalReason.NOT_CANCELLABLE: "It was processed, and can't be cancelled any more.",
    RefusalReason.CHILD: "It is a step of another: cancel that instead.",
}


class Acceptance:
    """Submits, shows and cancels orders; a Scheduler must claim a cancelled one in `start_within` seconds."""

    def __init__(self, ports: Ports, reply_queues: Collection[str], start_within: float) -> None:
        self.drafts = Drafts(ports.clock, ports.new_id, reply_queues)
        self._ports = ports
        self._start_within = timedelta(seconds=start_within)

    async def submit(self, workflow: Workflow, task: TaskId | None, sent: Any, caller: Caller) -> TaskId:
        """Submit an order, new or again. Raises as `Drafts` do, and `ProblemError` 409 for another order."""
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
        if stored.record.order.submitter != caller.name:
            caller.check(Role.OPERATOR)  # a `Reader` only sees it
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
