"""Carries a request out once, however often it is delivered: "begun" is recorded before, the reply after."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

from functions.messages.queues import again_for
from functions.pattern.agent_messages import AgentReply, AgentRequest, not_taken
from functions.pattern.agent_requests import Begun
from functions.pattern.errors import TransientError
from functions.pattern.ports import Ports

#: Seconds for which a store, or Service Bus, that fails is asked again.
_PATIENCE_SECONDS = 30.0

_log = logging.getLogger(__name__)


class SentOnce:
    """The requests that an Agent must not carry out twice, on record with their replies."""

    def __init__(self, ports: Ports) -> None:
        self._rows = ports.agent_requests
        self._messages = ports.agent_messages
        self._new_id = ports.new_id
        self._clock = ports.clock

    async def take(
        self, request: AgentRequest, carry_out: Callable[[], Awaitable[AgentReply | None]]
    ) -> None:
        """Have the first delivery carry the request out, before complete-by; a reply is sent however late.

        If that has waited too long, none ever carries it out: the reply that says so is on record first. A
        later delivery sends the recorded reply again. Where there is none, the outcome stays unknown. Raises
        `TransientError` when the request could not be begun, or its recorded reply not be sent.
        """
        delivery = self._new_id()
        if self._clock.now() >= request.complete_by:
            begun = await again_for(_PATIENCE_SECONDS, partial(self._rows.find, request))
        else:
            begun = await again_for(_PATIENCE_SECONDS, partial(self._begin, request, delivery))
        where = f"task {request.task_id} step {request.of_step}"
        if begun is None:
            _log.info("%s: request is late", where)
        elif begun.reply is not None:
            await self._messages.reply(begun.reply)
        elif not begun.by_us:
            _log.warning("%s: begun by an earlier delivery, outcome unknown; not called again", where)
        else:
            reply = await carry_out()
            if reply is not None:
                await self._record_and_send(request, reply)

    async def _begin(self, request: AgentRequest, delivery: str) -> Begun | None:
        late = not_taken(request) if request.waited_too_long(self._clock.now()) else None
        begun = await self._rows.begin(request, delivery, late)
        if not begun.by_us or begun.reply is not None:
            return begun
        # It may be too late by now, when the store was slow.
        now = self._clock.now()
        if request.waited_too_long(now):
            late = not_taken(request)
            await self._rows.replied(request, late)
            return replace(begun, reply=late)
        return None if now >= request.complete_by else begun

    async def _record_and_send(self, request: AgentRequest, reply: AgentReply) -> None:
        try:
            await again_for(_PATIENCE_SECONDS, partial(self._rows.replied, request, reply))
        except TransientError as fault:
            _log.warning("task %s step %s: reply not recorded (%s)", request.task_id, request.of_step, fault)
            # Nobody else could send it.
            await again_for(_PATIENCE_SECONDS, partial(self._messages.reply, reply))
        else:
            await self._messages.reply(reply)
