"""Replies that can't be taken: kept aside, and told where somebody looks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from functions.messages.reading import MessageReader, NotAMessageError, read_message
from functions.pattern.agent_messages import AgentReply
from functions.pattern.errors import PermanentError, UnreadableError
from functions.pattern.messages import AGENT_REPLIES_QUEUE
from functions.pattern.ports import Ports
from functions.pattern.rejected import About
from functions.pattern.requests import result_bytes
from functions.pattern.shared_rows import Occasion
from functions.pattern.states import Outcome
from functions.pattern.strict_json import FaultAt
from functions.pattern.texts import bounded

#: An Agent's fault of one kind is alerted once in this time.
_EVERY = timedelta(hours=1)
_MOST_REASON_BYTES = 900
_RESULT = "result"

#: Alerts operators of a refused reply: whom it was about, and why it was refused.
type AlertRefused = Callable[[About, str], Awaitable[None]]


def read_reply(body: bytes) -> AgentReply:
    """Read a reply whose result can be recorded. Raises `NotAMessageError`."""
    reply = read_message(AgentReply, body)
    try:
        result_bytes(reply.result)
    except PermanentError as unusable:
        fault = FaultAt((_RESULT,), "too large", str(unusable).removeprefix("its result "))
        raise NotAMessageError((fault,), json.loads(body)) from None
    return reply


def known_done(refused: NotAMessageError) -> AgentReply | None:
    """Give the reply without its result, if that is all that is wrong: what it says is done, is done."""
    said = refused.content
    if said.get("outcome") != Outcome.COMPLETED or any(
        each.place[:1] != (_RESULT,) for each in refused.faults
    ):
        return None
    reason = bounded(f"its result can't be recorded ({refused})", _MOST_REASON_BYTES)
    rest = {name: value for name, value in said.items() if name != _RESULT} | {"no_result": reason}
    try:
        return read_message(AgentReply, json.dumps(rest).encode())
    except NotAMessageError:  # what is wrong besides, shows only now
        return None


class RefusedReplies:
    """What becomes of them; `alert` hears of an Agent's fault of one kind once an hour."""

    def __init__(self, ports: Ports, alert: AlertRefused) -> None:
        self._reader = MessageReader(AgentReply, AGENT_REPLIES_QUEUE, ports.rejected)
        self._store = ports.store
        self._times = ports.times
        self._clock = ports.clock
        self._alert = alert
        #: What need not be asked for again: another alert is not due before that time.
        self._quiet_until: dict[str, datetime] = {}

    async def refuse(self, message_id: str, body: bytes, error: NotAMessageError) -> None:
        """Keep a message, and say why in the log and in an alert. Raises `TransientError`."""
        about, reason = await self._about(error.about), str(error)
        await self._reader.reject(message_id, body, reason, about)
        now, subject = self._clock.now(), f"{about.agent or ''}|{error.faults[0].kind}"
        if now < self._quiet_until.get(subject, now):
            return
        is_due = await self._times.note(Occasion.REFUSED, subject, now, _EVERY)
        self._quiet_until[subject] = now + _EVERY
        if is_due:
            await self._alert(about, reason)

    async def _about(self, named: About) -> About:
        """Find out whose Agent it is; of an Agent that no task knows, nothing is believed."""
        if named.task is None:
            return named
        try:
            record = await self._store.known(named.task)
        except UnreadableError:
            return named
        shapes = {} if record is None else {step.name: step.shape for step in record.steps}
        shape = None if named.step is None else shapes.get(named.step)
        return named if shape is None else replace(named, agent=shape.agent)
