"""Receives the alerts that the application posts to its webhook."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiohttp import web


@dataclass(frozen=True, slots=True)
class Alert:
    """One alert: of a task in an epoch, or, without a task, of something else, such as a lost message."""

    order: str | None
    epoch: int | None
    text: str


class AlertReceiver:
    """Keeps every alert that is posted."""

    def __init__(self) -> None:
        self._alerts: list[Alert] = []

    @property
    def alerts(self) -> Sequence[Alert]:
        """All alerts, in the order in which they came; one that is told twice is there twice."""
        return self._alerts

    def routes(self) -> list[web.RouteDef]:
        """Give the routes to serve."""
        return [web.post("/alerts", self._post)]

    async def _post(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self._alerts.append(Alert(body.get("task"), body.get("epoch"), json.dumps(body)))
        return web.Response(status=HTTPStatus.NO_CONTENT)
