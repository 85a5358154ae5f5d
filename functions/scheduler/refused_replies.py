"""Replies that can't be taken: kept aside, and told where somebody looks."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

from functions.messages.reading import FaultAt, MessageReader, NotAMessageError, read_message
from functions.pattern.agent_messages import AgentReply
from functions.pattern.errors import PermanentError, UnreadableError
from functions.pattern.late import replied_step
from functions.pattern.messages import AGENT_REPLIES_QUEUE
from functions.pattern.ports import Ports
from functions.pattern.rejected import About
from functions.pattern.requests import result_bytes
from functions.pattern.shared_rows import Occasion
from functions.pattern.states import Outcome
from functions.pattern.step_records import StepRecord
from functions.pattern.strict_json import lenient_json
from functions.pattern.texts import bounded
from functions.scheduler.signs_of_life import SignsOfLife

#: An Agent's fault of one kind is alerted once in this time.
_EVERY = timedelta(hours=1)
_MOST_REASON_BYTES = 900
_RESULT, _TOKEN = "result", "token"

#: Alerts operators of a refused reply: whom it was about, and why it was refused.
type AlertRefused = Callable[[About, str], Awaitable[None]]


def read_reply(body: bytes) -> AgentReply:
    """Read a reply whose result can be recorded. Raises `NotAMessageError`."""
    try:
        reply = read_message(AgentReply, body)
    except NotAMessageError as refused:
        if refused.content:
            raise
        raise NotAMessageError(refused.faults, lenient_json(body)) from None
    try:
        result_bytes(reply.result)
    except PermanentError as unusable:
        fault = FaultAt((_RESULT,), "too large", str(unusable).removeprefix("its result "))
        raise NotAMessageError((fault,), json.loads(body)) from None
    return reply


def known_done(refused: NotAMessageError) -> AgentReply | None:
    """Give the reply without its result, if that is all that is wrong: what it says is done, is done.

    The reply without it is read, which shows a fault elsewhere: a number that is not finite names no place.
    """
    said = refused.content
    places = {each.place[:1] for each in refused.faults}
    if said.get("outcome") != Outcome.COMPLETED or not places <= {(_RESULT,), ()}:
        return None
    reason = bounded(f"its result can't be recorded ({refused})", _MOST_REASON_BYTES)
    rest = {name: value for name, value in said.items() if name != _RESULT} | {"no_result": reason}
    try:
        return read_message(AgentReply, json.dumps(rest).encode())
    except (NotAMessageError, TypeError):  # what is wrong besides, shows only now
        return None


class RefusedReplies:
    """What becomes of them; `alert` hears of an Agent's fault of one kind once an hour."""

    def __init__(self, ports: Ports, alert: AlertRefused, signs: SignsOfLife) -> None:
        self._reader = MessageReader(AgentReply, AGENT_REPLIES_QUEUE, ports.rejected)
        self._store = ports.store
        self._times = ports.times
        self._clock = ports.clock
        self._alert = alert
        self._signs = signs
        #: What need not be asked for again: another alert is not due before that time.
        self._quiet_until: dict[str, datetime] = {}

    async def refuse(self, message_id: str, body: bytes, error: NotAMessageError) -> None:
        """Keep a message, and say why in the log and in an alert. Raises `TransientError`.

        An Agent whose replies are refused is not silent; of an Agent that no task knows, nothing is believed.
        """
        about, reason, said = error.about, str(error), error.content.get(_TOKEN)
        step = await self._step(about, said)
        token = None if step is None else step.token
        if step is not None:
            about = replace(about, agent=step.shape.agent)
        await self._reader.reject(message_id, body, reason, about)
        if step is not None and (said == token or not isinstance(said, str)):
            await self._signs.heard_of(step.shape.agent)
        now, subject = self._clock.now(), f"{about.agent or ''}|{error.faults[0].kind}"
        if now < self._quiet_until.get(subject, now):
            return
        if await self._times.note(Occasion.REFUSED, subject, now, _EVERY):
            self._quiet_until[subject] = now + _EVERY
            await self._alert(about, reason)

    async def _step(self, named: About, said: object) -> StepRecord | None:
        """Give the step that a message names, if there is one that can be read; as it is, with its token."""
        if named.task is None or named.step is None:
            return None
        try:
            stored = await self._store.load(named.task)
        except UnreadableError:
            return None
        if stored is None:
            return None
        step = replied_step(stored.record, named.step, said if isinstance(said, str) else "")
        return None if step is None else stored.record.step(step)
