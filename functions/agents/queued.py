"""An Agent behind a queue: takes requests, carries them out, replies."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from datetime import datetime, timedelta
from functools import partial

from functions.agents.places import PLACE_SECONDS, CallPlace, Places
from functions.agents.sent_once import SentOnce
from functions.agents.steps import SPARE_SECONDS, carry_out
from functions.agents.tries import Note, Tries, note_nowhere
from functions.messages.reading import NotAMessageError, read_message
from functions.pattern.agent_messages import (
    AgentReply,
    AgentRequest,
    done,
    done_without_result,
    not_taken,
    refused,
)
from functions.pattern.definition import Json
from functions.pattern.errors import PermanentError, TransientError, UnusableAnswerError
from functions.pattern.identity import start_of
from functions.pattern.messages import requests_queue
from functions.pattern.ports import Agent, AgentCall, Ports
from functions.pattern.rejected import Content, Labels
from functions.pattern.requests import result_bytes

_log = logging.getLogger(__name__)


class QueuedAgent:
    """Puts an Agent behind its queue. It may run anywhere: all it knows of the task is the request.

    Where tasks can take a `note`, calls that failed are noted on the step, as they are of an activity. Its
    function has `function_timeout` seconds, after which the host ends it, in the middle of a call too. A
    request that finds none of the `places` at the service waits on the queue.
    """

    def __init__(
        self,
        name: str,
        agent: Agent,
        ports: Ports,
        *,
        function_timeout: float,
        note: Note = note_nowhere,
        places: Places | None = None,
    ) -> None:
        self.name = name
        self._agent = agent
        self._messages = ports.agent_messages
        self._clock = ports.clock
        self._once = SentOnce(ports)
        self._note = note
        self._places = places
        self._postbox = ports.postbox
        self._new_id = ports.new_id
        spare = min(SPARE_SECONDS, function_timeout / 2)
        self._call_within = timedelta(seconds=function_timeout - spare)
        #: Seconds for which its function may try a request: of what a call leaves, half is for its outcome.
        self.patience = function_timeout - spare / 2

    async def take(self, message_id: str, body: bytes) -> None:
        """Carry out one request and reply. A late request or a transient fault gets no reply.

        A request that waited too long is not begun, and the reply says so. One that must not be repeated is
        carried out once: its recorded reply is sent again. Raises `NotAMessageError` for an unreadable
        message, and `TransientError` when the reply can't be sent or the time was too short.
        """
        try:
            request = read_message(AgentRequest, body)
        except NotAMessageError as error:
            _log.warning("%s: message %s can't be read: %s", requests_queue(self.name), message_id, error)
            raise
        if self._places is None or self._clock.now() > request.begin_by:  # what is late is not called
            await self._take(request, None)
            return
        place = await self._places.take(PLACE_SECONDS)
        if place is None:
            await self._send_again(request, body, self._places.next_turn())
            return
        try:
            await self._take(request, place)
        finally:
            place.release()

    async def _send_again(self, request: AgentRequest, body: bytes, turn: datetime) -> None:
        """Have the queue keep a request until its turn, as it came. Raises `TransientError`."""
        # Service Bus takes 128 characters, of which the new id has 33.
        message_id = f"{request.message_id[:95]}.{self._new_id()}"
        labels = Labels(subject=request.direction, correlation_id=request.task_id)
        not_before = min(turn, request.begin_by)
        content = Content(body=body, labels=labels)
        await self._postbox.put(requests_queue(self.name), message_id, content, not_before=not_before)

    async def _take(self, request: AgentRequest, place: CallPlace | None) -> None:
        if not request.idempotent:
            await self._once.take(request, partial(self._carry_out, request, place))
            return
        now = self._clock.now()
        if now >= request.complete_by:
            _log.info("task %s step %s: request is late", request.task_id, request.of_step)
            return
        late = request.waited_too_long(now)
        reply = not_taken(request) if late else await self._carry_out(request, place)
        if reply is not None and self._clock.now() < request.complete_by:
            await self._messages.reply(reply)

    async def _carry_out(self, request: AgentRequest, place: CallPlace | None) -> AgentReply | None:
        tries = Tries(
            self._note,
            self._clock,
            task=request.task_id,
            epoch=request.epoch,
            step=request.of_step,
            start_id=start_of(request.token),
        )
        now = self._clock.now()
        ends_by = request.work_ends_by(now)
        call = AgentCall(
            task=request.task_id,
            effect_key=request.effect_key,
            request=request.request,
            complete_by=min(ends_by, now + self._call_within),
            complete_within=request.complete_within,
            idempotent=request.idempotent,
            result=request.result,
            failed=tries.failed,
        )
        try:
            with nullcontext() if place is None else place.given():
                result = await carry_out(self._agent, request.direction, call)
            result = _usable(result)
        except UnusableAnswerError as unusable:
            _log.error("task %s step %s: done, but its result is unknown", request.task_id, request.of_step)
            return done_without_result(request, str(unusable))
        except PermanentError as refusal:
            return refused(request, str(refusal))
        except TransientError as fault:
            is_cut_short = request.idempotent and call.complete_by <= self._clock.now() < ends_by
            await tries.ended(fault, None if is_cut_short else ends_by)
            if is_cut_short:
                raise
            outcome = "expired" if request.idempotent else "outcome unknown"
            kind = type(fault).__name__
            _log.warning("task %s step %s: %s (%s)", request.task_id, request.of_step, outcome, kind)
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
