"""Makes orders of what callers send: each is checked once, as it will be read wherever it is used."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from functions.api.models import Envelope, EnvelopeAlone, InBatch
from functions.pattern.definition import ENVELOPE_FIELDS, Workflow
from functions.pattern.identity import CHILD_PREFIX, TaskId, is_child
from functions.pattern.messages import SubmissionMessage, check_payload
from functions.pattern.ports import Clock
from functions.pattern.store_ports import KnownOrder
from functions.web.callers import Caller
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
        envelope, faults = _read_envelope(model, sent, place)
        self._check_reply_to(envelope)
        if task is not None and not faults:
            _check_id(task)
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
        faults = [*_faults_of_payload(message, workflow, place), *faults]
        if faults:
            raise RequestValidationError(faults)
        return Draft(message, id_is_new=task is None)

    def _check_reply_to(self, envelope: Envelope) -> None:
        if envelope.reply_to is not None and envelope.reply_to not in self.reply_queues:
            raise _wrong("reply_to", "not a queue that replies may go to")


def _read_envelope(
    model: type[Envelope], sent: Mapping[str, Any], place: str
) -> tuple[Envelope, list[dict[str, Any]]]:
    given = {name: sent[name] for name in ENVELOPE_FIELDS if name in sent}
    try:
        return model.model_validate(given), []
    except ValidationError as error:
        return Envelope(), faults_in(place, error)


def _faults_of_payload(message: SubmissionMessage, workflow: Workflow, place: str) -> list[dict[str, Any]]:
    try:
        check_payload(message, workflow)
    except ValidationError as error:
        return faults_in(place, error)
    return []


def _check_id(task: TaskId) -> None:
    if is_child(task):
        raise _wrong("id", f"what begins with {CHILD_PREFIX} is the application's own")


def _wrong(field: str, reason: str) -> ProblemError:
    fault = FieldFault(field=field, reason=reason)
    return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, "Some fields are wrong.", errors=[fault])
