"""Where aiohttp's session stands: what one host uses of it for its Agents and for its alerts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from functools import partial
from json import dumps, loads
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from tests.simulation.hosts.host import HostClock, Seam
from tests.simulation.remotes.service import RemoteServices, ServiceAnswer
from tests.simulation.world.world import OWNER, AnswerLostFault, BusyFault, NotSentFault

type _Sent = Callable[[Any], Awaitable[ServiceAnswer]]


class _Answered:
    """An answer as Agents read it."""

    def __init__(self, answer: ServiceAnswer) -> None:
        self.status = answer.status
        self.headers: Mapping[str, str] = (
            {} if answer.retry_after is None else {"Retry-After": answer.retry_after}
        )
        self.content = SimpleNamespace(iter_any=partial(_pieces, answer.body))


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    yield body


class SimulatedSession:
    """Sends requests of one host to the remote services."""

    def __init__(self, services: RemoteServices, seam: Seam, clock: HostClock) -> None:
        self._services = services
        self._seam = seam
        self._clock = clock

    @asynccontextmanager
    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        data: bytes,
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - as the session has it
        middlewares: Sequence[Any] = (),
        **_: Any,
    ) -> AsyncIterator[_Answered]:
        """Send a request to an Agent's service. Raises as aiohttp does."""
        agent, _slash, resource = urlsplit(url).path.strip("/").partition("/")
        key = headers.get("Idempotency-Key", "")
        work: Callable[[], Awaitable[ServiceAnswer]]
        if method == "GET":
            work = partial(_at_once, partial(self._services.read, agent, resource))
        else:
            work = partial(self._services.take, agent, key, self._clock.by_timers(), data)
        sent: Any = partial(self._sent, f"{method} {agent} {key or resource}", work)
        for middleware in middlewares:
            sent = partial(_through, middleware, sent)
        async with asyncio.timeout(timeout.total):
            with self._services.in_flight(agent):
                answer = await sent(None)
        yield _Answered(answer)

    @asynccontextmanager
    async def post(self, url: object, *, json: Any, **_: Any) -> AsyncIterator[_Answered]:  # noqa: ARG002
        """Post an alert."""
        taken = await self._sent("alert", partial(_at_once, partial(self._alert, json)), None)
        yield _Answered(taken)

    def _alert(self, content: Any) -> ServiceAnswer:
        self._services.alerts.append(loads(dumps(content)))
        return ServiceAnswer(204)

    async def _sent(
        self, what: str, work: Callable[[], Awaitable[ServiceAnswer]], _request: Any
    ) -> ServiceAnswer:
        """Send; what the service does goes on when its caller has crashed or given up."""
        try:
            arrived = await self._seam.carry_out(what, lambda: _apart(work()))
        except NotSentFault as fault:
            raise aiohttp.ClientConnectorError(_NOWHERE, OSError(str(fault))) from fault
        except (AnswerLostFault, BusyFault) as fault:
            raise aiohttp.ServerDisconnectedError(str(fault)) from fault
        return await asyncio.shield(arrived)


_NOWHERE: Any = SimpleNamespace(host="service", port=443, ssl=True, is_ssl=True)


async def _at_once(act: Callable[[], ServiceAnswer]) -> ServiceAnswer:
    return act()


async def _through(middleware: Any, sent: _Sent, request: Any) -> ServiceAnswer:
    answer: ServiceAnswer = await middleware(request, sent)
    return answer


def _apart(work: Awaitable[ServiceAnswer]) -> asyncio.Task[ServiceAnswer]:
    """Do work as nobody's: a crash of its caller does not end it."""
    assert isinstance(work, Coroutine)
    nobodys = Context()
    nobodys.run(OWNER.set, None)
    return asyncio.get_running_loop().create_task(work, context=nobodys)
