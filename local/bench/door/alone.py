"""The callers' application without the platform: no host, no broker, no store; orders are dropped."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import azure.functions as func

from functions.api.acceptance import Acceptance
from functions.api.application import callers_application
from functions.pattern.definition import Registry
from functions.pattern.messages import SubmissionMessage
from functions.pattern.ports import Ports
from functions.pattern.submission_groups import groups_of
from functions.web.callers import Caller, Role, identify_as
from functions.web.caps import Caps
from functions.web.entrance import Guard
from functions.web.events import Events
from functions.web.handover import Handover
from functions.workflows.registry import load_registrations
from local.bench.door.requests import JSON, Sent

_UNLIMITED = 1_000_000_000


class _Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class _Nowhere:
    """Writes the messages, drops them, and knows no order."""

    async def submit(self, message: SubmissionMessage) -> None:
        len(message.written)

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], traces: Sequence[str | None] = ()
    ) -> Sequence[None]:
        return [None for group in groups_of(messages, traces) for _ in range(group.orders)]

    async def order(self, _task: object) -> None:
        return None

    async def check(self) -> None:
        return None


class ApplicationAlone:
    """DoorAnswers requests as the host's function does."""

    def __init__(self) -> None:
        registry = Registry(tuple(version for each in load_registrations() for version in each.versions), {})
        nowhere, clock = _Nowhere(), _Clock()
        parts = {"clock": clock, "new_id": lambda: uuid.uuid4().hex, "store": nowhere, "submissions": nowhere}
        ports = cast("Ports", SimpleNamespace(**parts))
        acceptance, events = Acceptance(ports, (), 60), Events(ports, registry, 60)
        guard = Guard(identify_as(Caller("bench", frozenset(Role))), Caps(_UNLIMITED, _UNLIMITED), clock)
        app: Any = callers_application(registry, acceptance, events, nowhere.check, guard=guard)
        self._handover = Handover(lambda: app)

    async def send(self, each: Sent) -> tuple[int, bytes]:
        """Give the status and the body of the answer."""
        headers = {**JSON, "Host": "localhost"}
        asked = func.HttpRequest(each.method, f"http://localhost{each.path}", headers=headers, body=each.body)
        answer = await self._handover.answer(asked, None)
        return answer.status_code, answer.get_body()
