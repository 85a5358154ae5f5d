"""An Agent behind its queue in this application: it takes requests, carries them out, and replies.

It needs the request alone, so it may run in a process without access to the state store. Times are UTC.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from pydantic_core import from_json
from tenacity import AsyncRetrying, retry_if_exception_type, wait_random_exponential

from functions.agents.agent_call import Agent, Call, CallOutcome, carry_out, look_up
from functions.core.json_values import json_text
from functions.core.record import Direction, queue_gate
from functions.core.task_events import OutcomeKind
from functions.messaging.agent_messages import (
    MOST_REASON_CHARACTERS,
    REPLY_OUTCOMES,
    AgentReply,
    AgentRequest,
    ReplyOutcome,
    RequestKind,
    reply_to,
)
from functions.messaging.message_format import MessageError, read_message
from functions.messaging.queue_names import requests_queue
from functions.messaging.request_ledger import Begin, RequestLedger
from functions.messaging.senders import SendError
from functions.storage.gates import CallLimits, NoFreeSlotError
from functions.storage.table_contract import StorageError

_log = logging.getLogger(__name__)

#: Seconds of the function that remain after a call, to record its outcome and to reply.
_SPARE_SECONDS = 30.0
#: Seconds in which a failing table, or a failing queue of replies, is tried again.
_RETRY_SECONDS = 30.0

_TOO_LATE = "taken after its deadline"


class UnfinishedCallError(Exception):
    """The function had too little time for a call that may be repeated: deliver its request again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueAgent:
    """Serves one Agent behind its queue.

    The host ends the function after `function_seconds`, also in the middle of a call. `limits` are those of
    the gates, or those of the settings if the state store is not accessible.
    """

    name: str
    agent: Agent
    ledger: RequestLedger
    send_reply: Callable[[AgentReply], Awaitable[None]]
    now: Callable[[], datetime]
    new_id: Callable[[], str]
    function_seconds: float
    limits: CallLimits

    async def take(self, message_id: str, body: bytes) -> None:
        """Carry out a request until its deadline, and reply. A request that is taken too late is not begun.

        Raises `MessageError` for a message that is no request. After any other error (of the table, of
        the queue of replies, `UnfinishedCallError`) the message must be delivered again.
        """
        try:
            request = read_message(AgentRequest, body)
        except MessageError as error:
            _log.warning("%s: message %s is no request: %s", requests_queue(self.name), message_id, error)
            raise
        if request.kind is RequestKind.FIND:
            await self.send_reply(await self._look_up(request))
            return
        if not request.idempotent:
            await self._take_once(request)
            return
        reply = await self._carry_out(request)
        is_counted = self.now() < request.complete_by or reply.outcome is ReplyOutcome.NOT_TAKEN
        if is_counted:
            await self.send_reply(reply)

    async def _look_up(self, request: AgentRequest) -> AgentReply:
        """Return the reply with the outcome of an earlier start. Without a fence, "not done" is unknown."""
        await self.limits.refresh()
        try:
            async with self.limits.call(queue_gate(self.name), request.complete_by):
                call = _call_of(request, request.complete_by)
                outcome = await look_up(self.agent, call, self.now())
        except NoFreeSlotError as error:
            outcome = CallOutcome(OutcomeKind.UNKNOWN, str(error))
        if outcome.kind is OutcomeKind.NOT_BEGUN:
            return reply_to(request, ReplyOutcome.NOT_DONE, fences_starts=True)
        return reply_with(request, outcome)

    async def _take_once(self, request: AgentRequest) -> None:
        """Carry out a request that must not be repeated in its first delivery, and record the reply.

        A later delivery waits while the first one lives. It sends the recorded reply, or replies that the
        outcome is unknown.
        """
        late_by, delivery = self.now() - request.complete_by, self.new_id()
        outcome = ReplyOutcome.NOT_TAKEN if late_by.days < 1 else ReplyOutcome.UNKNOWN  # no row after a day
        late = reply_to(request, outcome, error=_TOO_LATE) if late_by >= timedelta() else None
        begin = partial(self.ledger.begin, request, delivery, late)
        while (reply := await self._retried(begin)) is Begin.BUSY:  # noqa: ASYNC110 - polls another process
            await asyncio.sleep(2)
        if reply is Begin.FIRST:
            renewing = asyncio.create_task(self._renew(request))
            try:
                reply = await self._carry_out(request)
            finally:
                renewing.cancel()
            try:
                await self._retried(partial(self.ledger.record, request, delivery, reply))
            except StorageError as error:
                text = "task %s step %s: its reply is not recorded: %s"
                _log.warning(text, request.task_id, request.step, error)
                await self._retried(partial(self.send_reply, reply))  # no other delivery can send it
                return
        await self.send_reply(reply)

    async def _renew(self, request: AgentRequest) -> None:
        """Renew the lease of a request every few seconds, until this task is cancelled."""
        while True:
            await asyncio.sleep(5)
            with suppress(StorageError):
                await self.ledger.renew(request)

    async def _carry_out(self, request: AgentRequest) -> AgentReply:
        """Carry out a request; return the reply. Raises `UnfinishedCallError`."""
        begun_at = self.now()
        spare = min(_SPARE_SECONDS, self.function_seconds / 2)
        ends_at = min(request.complete_by, begun_at + timedelta(seconds=self.function_seconds - spare))
        if begun_at >= ends_at:
            return reply_to(request, ReplyOutcome.NOT_TAKEN, error=_TOO_LATE)
        call = _call_of(request, ends_at)
        await self.limits.refresh()
        try:
            async with self.limits.call(queue_gate(self.name), begun_at + (ends_at - begun_at) / 2):
                outcome = await carry_out(self.agent, call, self.now())
        except NoFreeSlotError as error:
            return reply_to(request, ReplyOutcome.NOT_TAKEN, error=str(error))
        is_cut_short = outcome.kind is OutcomeKind.UNKNOWN and ends_at < request.complete_by
        if is_cut_short and request.idempotent and self.now() > ends_at - timedelta(seconds=1):
            raise UnfinishedCallError(f"task {request.task_id} step {request.step}: {outcome.text}")
        return reply_with(request, outcome)

    async def _retried[T](self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`, which is repeated for some seconds if the table or the queue fails."""
        until = self.now() + timedelta(seconds=_RETRY_SECONDS)
        retrying = AsyncRetrying(
            retry=retry_if_exception_type((StorageError, SendError)),
            wait=wait_random_exponential(multiplier=0.2, max=5),
            stop=lambda state: self.now() + timedelta(seconds=state.upcoming_sleep) >= until,
            reraise=True,
        )
        return await retrying(work)


def _call_of(request: AgentRequest, ends_at: datetime) -> Call:
    return Call(
        task=request.task_id,
        step=request.step,
        direction=request.direction,
        effect_key=request.effect_key,
        request=json_text("request", request.request),
        complete_by=ends_at,
        start_id=request.start_id,
        epoch=request.epoch,
        idempotent=request.idempotent,
        do_result=None if request.result is None else json_text("result", request.result),
    )


def reply_with(request: AgentRequest, outcome: CallOutcome) -> AgentReply:
    """Return the reply with an outcome."""
    text = outcome.text[:MOST_REASON_CHARACTERS]
    if outcome.kind is OutcomeKind.DONE:
        result = from_json(outcome.text) if request.direction is Direction.DO else None
        return reply_to(request, ReplyOutcome.DONE, result=result)
    if outcome.kind is OutcomeKind.DONE_WITHOUT_RESULT:
        return reply_to(request, ReplyOutcome.DONE, no_result=text or "no reason is known")
    return reply_to(request, REPLY_OUTCOMES[outcome.kind], error=text)
