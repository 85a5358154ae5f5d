"""An Agent behind a queue: takes requests, carries them out, replies."""

from __future__ import annotations

import logging
from datetime import timedelta
from functools import partial

from functions.agents.sent_once import SentOnce
from functions.agents.steps import SPARE_SECONDS, carry_out
from functions.agents.tries import Note, Tries, note_nowhere
from functions.messages.reading import MessageReader
from functions.pattern.agent_messages import AgentReply, AgentRequest, done, done_without_result, refused
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError
from functions.pattern.identity import start_of
from functions.pattern.messages import requests_queue
from functions.pattern.ports import Agent, AgentCall, Ports
from functions.pattern.requests import result_bytes

_log = logging.getLogger(__name__)


class QueuedAgent:
    """Puts an Agent behind its queue. It may run anywhere: all it knows of the task is the request.

    Where tasks can take a `note`, calls that failed are noted on the step, as they are of an activity. Its
    function has `function_timeout` seconds, after which the host ends it, in the middle of a call too.
    """

    def __init__(
        self, name: str, agent: Agent, ports: Ports, *, function_timeout: float, note: Note = note_nowhere
    ) -> None:
        #: As the workflows' steps give it.
        self.name = name
        self._agent = agent
        self._messages = ports.agent_messages
        self._reader = MessageReader(AgentRequest, requests_queue(name), ports.rejected, agent=name)
        self._clock = ports.clock
        self._once = SentOnce(ports)
        self._note = note
        spare = min(SPARE_SECONDS, function_timeout / 2)
        self._call_within = timedelta(seconds=function_timeout - spare)
        #: Seconds for which its function may try a request: of what a call leaves, half is for its outcome.
        self.patience = function_timeout - spare / 2

    async def take(self, message_id: str, body: bytes) -> None:
        """Carry out one request and reply. A late request or a transient fault gets no reply.

        A message that can't be read is recorded as rejected. Raises `TransientError` when the reply can't be
        sent, or this function's time was too short: the request is then redelivered, and its effect key
        prevents a second effect. One that is not idempotent is not carried out a second time: its reply was
        recorded, and is sent again.
        """
        request = await self._reader.read(message_id, body)
        if request is None:
            return
        if not request.idempotent:
            await self._once.take(request, partial(self._carry_out, request))
            return
        if self._clock.now() >= request.complete_by:
            _log.info("task %s step %s: request is late", request.task_id, request.step)
            return
        reply = await self._carry_out(request)
        if reply is not None and self._clock.now() < request.complete_by:
            await self._messages.reply(reply)

    async def _carry_out(self, request: AgentRequest) -> AgentReply | None:
        tries = Tries(
            self._note,
            self._clock,
            task=request.task_id,
            epoch=request.epoch,
            step=request.step,
            start_id=start_of(request.token),
        )
        call = AgentCall(
            task=request.task_id,
            effect_key=request.effect_key,
            request=request.request,
            complete_by=min(request.complete_by, self._clock.now() + self._call_within),
            idempotent=request.idempotent,
            result=request.result,
            failed=tries.failed,
        )
        try:
            result = _usable(await carry_out(self._agent, request.direction, call))
        except UnusableAnswerError as unusable:
            _log.error("task %s step %s: done, but its result is unknown", request.task_id, request.step)
            return done_without_result(request, str(unusable))
        except PermanentError as refusal:
            return refused(request, str(refusal))
        except TransientError as fault:
            await tries.ended(fault)
            if request.idempotent and call.complete_by <= self._clock.now() < request.complete_by:
                raise
            outcome = "expired" if request.idempotent else "outcome unknown"
            kind = type(fault).__name__
            _log.warning("task %s step %s: %s (%s)", request.task_id, request.step, outcome, kind)
            return None
        except Exception as defect:
            await tries.ended(defect)
            raise
        return done(request, result)


def _usable(result: Json) -> Json:
    """Give a result that a reply can carry. Raises `UnusableAnswerError`: the step is done all the same."""
    try:
        result_bytes(result)
    except PermanentError as fault:
        raise UnusableAnswerError(str(fault)) from None
    return result
