"""Where the SDK's Durable client sends its requests: to the hub, by the seam of the host that sends."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import aiohttp

from tests.simulation.durable.hub import TaskHub, body_of
from tests.simulation.hosts.host import Host
from tests.simulation.world.fate import AnswerLostFault, BusyFault, NotSentFault, Place
from tests.simulation.world.owner import OWNER


class DurableRequests:
    """Carries out what clients ask for, and answers as the extension does."""

    def __init__(self, hub: TaskHub) -> None:
        self._hub = hub

    async def post(self, url: str, data: Any = None, *_: Any, **__: Any) -> list[Any]:
        """Start an instance, or raise an event."""
        parts = [unquote(part) for part in urlsplit(url).path.strip("/").split("/")]
        match parts:
            case ["orchestrators", name, instance]:
                return await self._send(f"start {instance}", lambda: self._start(instance, name, data))
            case ["instances", instance, "raiseEvent", event]:
                raised = lambda: [self._hub.raise_event(instance, event, body_of(data)), None]  # noqa: E731
                return await self._send(f"event {event} to {instance}", raised)
            case _:
                raise NotImplementedError(url)

    async def delete(self, url: str, *_: Any, **__: Any) -> list[Any]:
        """Purge an instance."""
        instance = unquote(urlsplit(url).path.rpartition("/")[2])
        return await self._send(f"purge {instance}", lambda: self._purge(instance))

    def _start(self, instance: str, name: str, data: Any) -> list[Any]:
        if self._hub.start(instance, name, body_of(data)):
            return [202, {"id": instance}]
        return [409, "An Orchestration instance with the status Running already exists."]

    def _purge(self, instance: str) -> list[Any]:
        return [200, {"instancesDeleted": 1}] if self._hub.forget(instance) else [404, None]

    @staticmethod
    async def _send(what: str, act: Callable[[], list[Any]]) -> list[Any]:
        host = cast("Host", OWNER.get())
        try:
            return await host.seam(Place.DURABLE).carry_out(what, act)
        except (NotSentFault, AnswerLostFault, BusyFault) as fault:
            raise aiohttp.ClientConnectionError(str(fault)) from fault
