"""Every route of the two applications, ready to be called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from tests.fakes.asgi import AsgiClient, HttpAnswer
from tests.unit.api.scene import ORDER, TASK

#: The id of a rejected message, as far as its form goes.
REJECTED = f"{'0' * 18}-{'0' * 64}"

_BODIES: Mapping[str, Any] = {
    "order": ORDER,
    "batch": {"orders": [ORDER]},
    "rebuild": {"reason": "a test"},
    "events": {"reason": "a test", "body": {}},
    "limit": {"reason": "a test", "calls_at_once": 4},
    "actions": {
        "reason": "a test",
        "filter": {"state": "Error"},
        "action": "resubmit",
        "before": "2026-11-21T12:00:00Z",
    },
    "action": {"reason": "a test"},
}


@dataclass(frozen=True, slots=True)
class Route:
    """One route, with the task's id in its path, and a valid body."""

    method: str
    path: str

    @property
    def has_body(self) -> bool:
        """Return whether a body is read."""
        return self.method not in {"GET", "DELETE"}

    @property
    def body(self) -> Any:
        """Return the body; empty where none is read."""
        usual = "action" if "/ops/" in self.path else "order"
        kind = next((part for part in self.path.split("/")[3:] if part in _BODIES), usual)
        return _BODIES[kind] if self.has_body else b""

    async def ask(self, app: FastAPI, headers: Mapping[str, str]) -> HttpAnswer:
        """Call the route, as our own pages do."""
        client = AsgiClient(app, {"X-Requested-With": "test", **headers})
        return await client.send(self.method, self.path, self.body)

    @property
    def is_of_events(self) -> bool:
        """Return whether a step defines its callers and its body: see `tests/unit/api/test_events.py`."""
        return "/events/" in self.path and "/ops/" not in self.path

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


def routes_of(app: FastAPI) -> Iterator[Route]:
    """Yield every route except the open one."""
    for context in iter_route_contexts(app.routes):
        for method in context.methods or ():
            path = (
                (context.path or "")
                .replace("/rejected/{id}", f"/rejected/{REJECTED}")
                .replace("{id}", TASK)
                .replace("{task_id}", TASK)
                .replace("{step}/{action}", "payment/rebuild")
                .replace("{action}", "resubmit")
                .replace("{step}", "payment")
                .replace("{gate}", "payment")
            )
            if path != "/api/health":
                yield Route(method, path)
