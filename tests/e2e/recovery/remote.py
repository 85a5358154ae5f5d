"""The remote service of the steps: does what its script says, and records the calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Self

from aiohttp import ClientSession, web

from tests.fakes.web_server import served

#: What a call requests, by its method.
_ASKED = {"PUT": "do", "DELETE": "undo", "GET": "show"}


class Behaviour(Enum):
    """How the service handles one call."""

    #: It does what is requested, and answers.
    ANSWERS = "answers"
    #: It does what is requested, and never answers.
    FORGETS = "forgets"
    #: It does what is requested, and drops the connection before it answers.
    BREAKS_OFF = "breaks off"
    #: It does what is requested, and answers that it refuses.
    BLUNDERS = "blunders"
    #: It does nothing, and never answers.
    HANGS = "hangs"
    #: It does what is requested, and answers when the test allows it.
    WAITS = "waits"
    #: It is down: 503.
    IS_DOWN = "is down"
    #: It refuses permanently: 422.
    REFUSES = "refuses"
    #: It refuses with a text that is unprintable and too long.
    SHOUTS = "shouts"
    #: It does what is requested, and answers more than can be kept.
    FLOODS = "floods"
    #: It does what is requested, and its answer is no JSON.
    BABBLES = "babbles"


_DOES_NOTHING = {Behaviour.HANGS, Behaviour.IS_DOWN, Behaviour.REFUSES, Behaviour.SHOUTS}

#: A text that is unprintable, and too long for a row.
_NOISE = '\U0001f600\u202e\\"\x00' * 20_000

#: The status and the text of a constant answer.
_ANSWERS = {
    Behaviour.IS_DOWN: (503, ""),
    Behaviour.REFUSES: (422, ""),
    Behaviour.BLUNDERS: (422, ""),
    Behaviour.SHOUTS: (422, _NOISE),
    Behaviour.FLOODS: (200, json.dumps({"noise": _NOISE})),
    Behaviour.BABBLES: (200, "<p>done</p>"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it arrived: the effect that it requested, and the time (UTC)."""

    effect: str
    at: datetime


class RemoteService:
    """Serves the steps, the alert webhook, and a proxy of the sample payment service.

    An undone step has a tombstone.
    """

    def __init__(self) -> None:
        self.url = ""
        self.payments_url = ""
        self.calls: list[Call] = []
        self.done: list[str] = []
        self.alerts: list[dict[str, Any]] = []
        self._scripts: dict[str, list[Behaviour]] = {}
        self._released: dict[str, list[asyncio.Event]] = {}

    def script(self, effect: str, *behaviours: Behaviour) -> None:
        """Set how the next calls for an effect are handled; the last behaviour applies to all later calls."""
        self._scripts[effect] = list(behaviours)

    def called(self, effect: str) -> int:
        """Count the calls for an effect."""
        return sum(call.effect == effect for call in self.calls)

    def effects(self, task: str) -> list[str]:
        """Return the effects on a task in order, each as often as it happened."""
        return [effect.removeprefix(f"{task}/") for effect in self.done if effect.startswith(f"{task}/")]

    def alerts_about(self, task: str) -> list[dict[str, Any]]:
        """Return the alerts about a task that reached the operator's webhook."""
        return [alert for alert in self.alerts if alert.get("task") == task]

    def release(self, effect: str, call: int) -> None:
        """Answer the `call`-th waiting call (from 0) for an effect."""
        self._released[effect][call].set()

    def waiting(self, effect: str) -> int:
        """Count the calls for an effect that have waited."""
        return len(self._released.get(effect, []))

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Self]:
        """Serve on a free port."""
        app = web.Application()
        app.router.add_post("/alerts", self._alert)
        app.router.add_route("*", "/payments/{task}", self._pass_on)
        app.router.add_route("*", "/{step}/{task}", self._step)
        app.router.add_route("*", "/{prefix}/{step}/{task}", self._step)
        async with served(app) as self.url:
            yield self

    async def _alert(self, request: web.Request) -> web.Response:
        self.alerts.append(await request.json())
        return web.Response()

    def shown(self, step: str, task: str) -> Mapping[str, Any] | None:
        """Return what a step's service shows of a task; None for nothing, as here."""

    async def _step(self, request: web.Request) -> web.Response:
        step, resource = request.match_info["step"], request.match_info["task"]
        task, asked = resource.partition(".")[0], _ASKED[request.method]
        key = None if asked == "show" else f"{resource}/{step}/{asked}"
        if request.headers.get("Idempotency-Key") != key:
            return web.Response(status=400)
        effect = f"{task}/{step}/{asked}"
        behaviour = self._take(effect)
        if behaviour in _DOES_NOTHING:
            return await self._answer(request, effect, behaviour, {})
        if asked == "do" and f"{task}/{step}/undo" in self.done:
            return web.Response(status=410)
        if asked != "show" and effect not in self.done:
            self.done.append(effect)
        content = self.shown(step, task) if asked == "show" else {}
        if content is None:
            return web.Response(status=404)
        return await self._answer(request, effect, behaviour, content)

    def _take(self, effect: str) -> Behaviour:
        self.calls.append(Call(effect, datetime.now(UTC)))
        script = self._scripts.get(effect, [Behaviour.ANSWERS])
        return script.pop(0) if len(script) > 1 else script[0]

    async def _answer(
        self, request: web.Request, effect: str, behaviour: Behaviour, content: Mapping[str, Any]
    ) -> web.Response:
        if behaviour in _ANSWERS:
            status, text = _ANSWERS[behaviour]
            return web.Response(status=status, text=text)
        match behaviour:
            case Behaviour.BREAKS_OFF:
                assert request.transport
                request.transport.abort()
            case Behaviour.FORGETS | Behaviour.HANGS:
                await asyncio.Event().wait()
            case Behaviour.WAITS:
                return web.json_response({"call": await self._until_released(effect)})
            case Behaviour.ANSWERS:
                pass
        return web.json_response(content)

    async def _until_released(self, effect: str) -> int:
        """Wait, and return the number of the call among those that waited (from 1)."""
        released = asyncio.Event()
        waiting = self._released.setdefault(effect, [])
        waiting.append(released)
        number = len(waiting)
        await released.wait()
        return number

    async def _pass_on(self, request: web.Request) -> web.Response:
        """Forward a request to the sample payment service; the script may hold it back, or its answer."""
        resource, *rest = request.headers["Idempotency-Key"].split("/")
        effect = "/".join([resource.partition(".")[0], *rest])
        behaviour = self._take(effect)
        if behaviour is Behaviour.HANGS:
            await asyncio.Event().wait()
        status = await self.deliver(request.method, request.match_info["task"], await request.read())
        if behaviour is Behaviour.FORGETS:
            await asyncio.Event().wait()
        return web.Response(status=status)

    async def deliver(self, method: str, task: str, body: bytes) -> int:
        """Send a request to the sample payment service, and return the status of its response."""
        async with (
            ClientSession() as session,
            session.request(
                method,
                f"{self.payments_url}/{task}",
                data=body,
                headers={"Content-Type": "application/json"},
            ) as answer,
        ):
            return answer.status
