"""Orders of callers: drafts, and their submission. Times are UTC."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from functions.core.definition.definition_checks import ENVELOPE_FIELDS
from functions.core.definition.workflow_definition import UnfitOrderError, Workflow
from functions.core.json_values import UnfitValueError
from functions.core.record import CHILD_PREFIX
from functions.http.access import Caller
from functions.http.problems import ProblemError, faults_in
from functions.http.redaction import public_faults
from functions.messaging.message_format import (
    TASK_ID_PATTERN,
    CorrelationId,
    SubmissionMessage,
    TaskId,
    payload_text,
)
from functions.messaging.received_messages import NotHandledError, as_error
from functions.messaging.reservations import find_reservation, reserve
from functions.messaging.senders import SendError
from functions.storage.table_contract import TransientStorageError
from functions.storage.task_storage import TaskStorage

_log = logging.getLogger(__name__)

#: Submits orders of one workflow; returns the error of each one that may not be submitted.
type Submit = Callable[[Sequence[SubmissionMessage]], Awaitable[Sequence[BaseException | None]]]


class Envelope(BaseModel):
    """The fields of a submission beside the payload. A payload's model may generate other aliases."""

    reply_to: Annotated[str | None, Field(max_length=260, alias="reply_to")] = None
    correlation_id: Annotated[CorrelationId | None, Field(alias="correlation_id")] = None


class SingleEnvelope(Envelope):
    """The envelope of an order whose payload allows no other fields."""

    model_config = ConfigDict(extra="forbid")


class BatchEnvelope(Envelope):
    """The envelope of an order in a batch."""

    id: Annotated[TaskId | None, Field(alias="id", description="An id; without it the order gets one.")] = (
        None
    )


@dataclass(frozen=True, slots=True, eq=False)
class Draft:
    """An order that is not submitted. `is_named`: its caller chose the id. `fault`: why it is not valid."""

    order: SubmissionMessage
    is_named: bool
    fault: Exception | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Submits orders. Notices may be sent to `reply_queues`."""

    storage: TaskStorage
    submit: Submit
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    reply_queues: Collection[str]

    async def submit_one(self, workflow: Workflow[Any], task: str | None, sent: Any, caller: Caller) -> str:
        """Submit an order and return its id, a new one without `task`. Raises the error of `submit_all`."""
        [result] = await self.submit_all([self.draft(workflow, sent, caller, task=task)])
        if isinstance(result, Exception):
            raise result
        return result

    async def submit_all(self, drafts: Sequence[Draft]) -> list[str | Exception]:
        """Submit orders of one workflow that are not recorded; return the id or the error of each.

        The first one of several valid orders under one id counts. The error is the fault of a draft,
        `ProblemError` 409 if another order has the id, or that of the table or the queue.
        """
        first: dict[str, Draft] = {}
        counting = [each if each.fault else first.setdefault(each.order.task_id, each) for each in drafts]
        distinct = list(dict.fromkeys(counting))
        named = [each.order.task_id for each in distinct if each.is_named and not each.fault]
        # A conflict costs more than a read: if the first id of a batch is known, all are read.
        probes = (find_reservation(self.storage, task) for task in named[:1])
        is_known = len(named) > 1 and await asyncio.gather(*probes, return_exceptions=True) != [None]
        work = (self._prepare(each, is_known=is_known) for each in distinct)
        prepared = dict(zip(distinct, await asyncio.gather(*work, return_exceptions=True), strict=True))
        messages = {draft: each for draft, each in prepared.items() if isinstance(each, SubmissionMessage)}
        sent = await self.submit([*messages.values()]) if messages else ()
        faults = {**prepared, **dict(zip(messages, sent, strict=True))}
        pairs = zip(drafts, counting, strict=True)
        return [_result(draft, counts, faults[counts]) for draft, counts in pairs]

    async def _prepare(self, draft: Draft, *, is_known: bool) -> SubmissionMessage | None:
        """Reserve the id of an order and return the message to send, None if the order has a task."""
        order, found = draft.order, None
        if draft.is_named and (is_known or draft.fault):
            found = await find_reservation(self.storage, order.task_id)
        if draft.fault is not None:
            # A deployment may have changed the checks of an order that is recorded.
            if found is None or not found.is_admitted or found.identity != order.identity:
                raise draft.fault
            return None
        if not draft.is_named:
            return order
        if found is None or found.rejected is not None:
            found = await reserve(self.storage, order)
        if found.identity != order.identity:
            raise _id_conflict()
        return None if found.is_admitted else order.model_copy(update={"reservation": found.etag})

    def draft(
        self,
        workflow: Workflow[Any],
        sent: Any,
        caller: Caller,
        *,
        task: str | None = None,
        is_in_batch: bool = False,
    ) -> Draft:
        """Return an order that is not submitted. An order in a batch may contain its id.

        Its fault is `RequestValidationError`, `ProblemError`, `UnfitOrderError`, or an error of a function.
        """
        fields: dict[str, Any] = sent if isinstance(sent, dict) else {}
        named = fields.get("id") if is_in_batch else task
        is_named = isinstance(named, str) and re.fullmatch(TASK_ID_PATTERN, named) is not None
        payload = {name: value for name, value in fields.items() if name not in ENVELOPE_FIELDS}
        fault: Exception | None = None
        make: Callable[..., SubmissionMessage] = SubmissionMessage
        try:
            self._check(workflow, sent, payload, named if is_named else None, is_in_batch=is_in_batch)
        except Exception as error:  # noqa: BLE001 - an order stops no other of its batch
            fault, make = error, SubmissionMessage.model_construct
        reply_to = fields.get("reply_to")
        order = make(
            task_id=named if is_named else self.new_id(),
            workflow=workflow.name,
            version=workflow.version,
            payload=payload,
            submitter=caller.name,
            submitted_at=self.now(),
            reply_to=reply_to if isinstance(reply_to, str) else None,
            correlation_id=fields.get("correlation_id"),
        )
        return Draft(order, is_named, fault)

    def _check(
        self,
        workflow: Workflow[Any],
        sent: Any,
        payload: dict[str, Any],
        task: str | None,
        *,
        is_in_batch: bool,
    ) -> None:
        """Validate an order. Raises `RequestValidationError`, `ProblemError` 413 and `UnfitOrderError`."""
        place = workflow.noun if is_in_batch else "body"
        if not isinstance(sent, dict):
            fault = {"type": "dict_type", "loc": (place,), "msg": "Input should be a JSON object"}
            raise RequestValidationError([fault])
        model: type[Envelope] = BatchEnvelope if is_in_batch else Envelope
        if not is_in_batch and workflow.payload.model_config.get("extra") == "forbid":
            model = SingleEnvelope
        faults = _payload_faults(workflow, payload, place)
        try:
            envelope = model.model_validate({name: sent[name] for name in ENVELOPE_FIELDS if name in sent})
        except ValidationError as error:
            faults += faults_in(place, error)
        else:
            if envelope.reply_to is not None and envelope.reply_to not in self.reply_queues:
                faults.append(_fault(place, "reply_to", "Notices cannot be sent to this queue"))
        if task is not None and task.startswith(CHILD_PREFIX):
            faults.append(_fault(place, "id", f"Ids that start with {CHILD_PREFIX} are reserved"))
        if faults:
            raise RequestValidationError(faults)


def _payload_faults(workflow: Workflow[Any], payload: dict[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the faults of a payload. Raises `ProblemError` 413 and `UnfitOrderError`."""
    try:
        text = payload_text(payload)
    except UnfitValueError as error:
        raise ProblemError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
    try:
        value = workflow.payload.model_validate_json(text)
    except ValidationError as error:
        return public_faults(workflow.payload, place, error)
    except Exception as fault:  # a validator of the model may raise anything
        raise UnfitOrderError("Its payload cannot be read.") from fault
    workflow.search_keys(text, len(workflow.specs_of(value)))
    return []


def _fault(place: str, field: str, reason: str) -> dict[str, Any]:
    return {"type": "value_error", "loc": (place, field), "msg": reason}


def _result(draft: Draft, counts: Draft, fault: object) -> str | Exception:
    """Return the id of a draft, or an error. `fault` is that of the draft that counts under its id."""
    if isinstance(fault, BaseException):
        return as_error(fault)
    return draft.order.task_id if draft.order.identity == counts.order.identity else _id_conflict()


def _id_conflict() -> ProblemError:
    text = "Another order is recorded under this id. Use another id."
    return ProblemError(HTTPStatus.CONFLICT, text, kind="id-taken")


def as_problem(error: Exception) -> Exception:
    """Return the problem for callers of an error of the core, the table or a queue; other errors as is."""
    match error:
        case TransientStorageError() | SendError() | NotHandledError():
            _log.warning("unavailable: %s", error)
            text = "A required service does not answer. Try again; it is safe to repeat the same id."
            return ProblemError(HTTPStatus.SERVICE_UNAVAILABLE, text)
        case UnfitOrderError():
            if error.__cause__ is not None:
                _log.error("a function of the workflow failed", exc_info=error.__cause__)
            return ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))
        case _:
            return error
