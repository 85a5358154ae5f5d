"""What stands in the place of the outside while a host is made, and in the place of chance all the time."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from random import Random
from typing import Any
from unittest.mock import patch

from functions import wiring
from functions.agents import remote
from functions.messages import queues
from functions.store import connect, group_pipeline, task_writer
from functions.telemetry import changes

_MODELS = "azure.durable_functions.models"
_DURABLE = f"{_MODELS}.DurableOrchestrationClient"
_HISTORY = f"{_MODELS}.history.HistoryEvent"


@contextmanager
def of_chance(random: Random, now: Callable[[], float]) -> Iterator[None]:
    """Have all that the application leaves to chance, or to this process's clock, decided by the seed."""

    def uuid4() -> Any:
        return type("Id", (), {"hex": f"{random.getrandbits(128):032x}"})

    with ExitStack() as stack:
        for module in (remote, task_writer, changes):
            stack.enter_context(patch.object(module, "SystemRandom", lambda: random))
        stack.enter_context(patch.object(queues, "_random", random))
        stack.enter_context(patch("functions.web.problems.uuid.uuid4", uuid4))
        stack.enter_context(patch.object(group_pipeline, "time", now))
        yield


@contextmanager
def of_durable(post: Callable[..., Any], delete: Callable[..., Any]) -> Iterator[None]:
    """Have the SDK's Durable clients send their requests there."""
    with ExitStack() as stack:
        stack.enter_context(
            patch.multiple(sys.modules[_DURABLE], post_async_request=post, delete_async_request=delete)
        )
        # The SDK reads the times of a history by a parser of free text: a seventh of a seed's time.
        stack.enter_context(patch.object(sys.modules[_HISTORY], "dt_parse", datetime.fromisoformat))
        yield


@contextmanager
def of_the_outside(
    *,
    settings: Mapping[str, str],
    endpoints: Callable[..., Any],
    clock: Any,
    new_id: Callable[[], str],
    transport: Any,
    sync_tables: Callable[..., Any],
    bus: Any,
    session: Any,
) -> Iterator[None]:
    """Have a `Wiring` that is made meanwhile meet these."""
    with ExitStack() as stack:
        stack.enter_context(patch.dict(os.environ, settings, clear=True))
        stack.enter_context(
            patch.multiple(
                wiring,
                SystemClock=lambda: clock,
                load_endpoints=endpoints,
                new_id=new_id,
                connect_bus=lambda _connection: lambda: bus,
                http_session=lambda: session,
                once_session=lambda: session,
            )
        )
        for name in ("AioHttpTransport", "TableTransport"):
            stack.enter_context(patch.object(connect, name, lambda *_, **__: transport))
        stack.enter_context(patch.object(connect, "connect_at_start", sync_tables))
        yield
