"""The scripted services of a trip: flight, hotel, car, card, ticket, insurance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.e2e.recovery.remote import RemoteService

SERVICES = ("flight", "hotel", "car", "card", "ticket", "insurance")


class TravelServices(RemoteService):
    """Honour the idempotency key, except for a charge: each request charges the card."""

    def __init__(self) -> None:
        super().__init__()
        #: The latest request, and the keys, by effect.
        self.requests: dict[str, Any] = {}
        self.keys: defaultdict[str, set[str]] = defaultdict(set)

    def given(self, effect: str) -> Mapping[str, Any]:
        """Return the service's own reference."""
        return {"reference": f"reference of {effect}"}

    def is_new(self, effect: str) -> bool:
        """Return whether the service carries it out."""
        return effect.endswith("/charge/do") or super().is_new(effect)

    async def _step(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        resource, step, direction = key.split("/")
        effect = f"{resource.partition('.')[0]}/{step}/{direction}"
        self.keys[effect].add(key)
        if request.can_read_body:
            self.requests[effect] = await request.json()
        return await self.carry_out(request, effect)
