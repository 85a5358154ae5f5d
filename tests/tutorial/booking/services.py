"""The services of a trip, which do what a test's script says: flight, hotel, car, card, ticket, insurance."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from tests.e2e.recovery.remote import RemoteService

SERVICES = ("flight", "hotel", "car", "card", "ticket", "insurance")


class TravelServices(RemoteService):
    """Go by the idempotency key, but for a charge: the card is charged as often as that is asked for."""

    def __init__(self) -> None:
        super().__init__()
        #: What was asked for last, and under which keys, by effect.
        self.asked: dict[str, Any] = {}
        self.keys: defaultdict[str, set[str]] = defaultdict(set)

    def given(self, effect: str) -> Mapping[str, Any]:
        """Return the service's own reference."""
        return {"reference": f"reference of {effect}"}

    def is_new(self, effect: str) -> bool:
        """Tell whether the service does it."""
        return effect.endswith("/charge/do") or super().is_new(effect)

    async def _step(self, request: web.Request) -> web.Response:
        key = request.headers["Idempotency-Key"]
        resource, step, asked = key.split("/")
        effect = f"{resource.partition('.')[0]}/{step}/{asked}"
        self.keys[effect].add(key)
        if request.can_read_body:
            self.asked[effect] = await request.json()
        return await self.carry_out(request, effect)
