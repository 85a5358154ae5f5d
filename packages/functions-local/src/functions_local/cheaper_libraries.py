"""Replacements of slow functions in the libraries that this host runs.

Each replacement returns the same value as the original. They apply in this process only: the app's packages
are not changed, and Azure runs the originals.
"""

from __future__ import annotations

import functools
import importlib
import re
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from types import SimpleNamespace
from typing import Any

_DURABLE_MODELS = "azure.durable_functions.models"

#: The end of a time with a zone, and of a format that requires a zone.
_ZONE = re.compile(r"(Z|[+-]\d\d:\d\d)$")

type _Parsed = tuple[datetime | None, str | None, Exception | None]
#: Starts an orchestration by function name, with its id and the client's text. Returns the response to the
#: client, or None if the request must be sent over HTTP.
type Start = Callable[[str, str, str | None], Awaitable[Mapping[str, str] | None]]
type _Parse = Callable[[str, list[str]], _Parsed]


def make_libraries_cheaper() -> None:
    """Replace the slowest functions, once the app is imported."""
    if _DURABLE_MODELS in sys.modules:  # version 2 has none
        _make_replays_cheaper()
    _make_message_batches_cheaper()


def make_starts_cheaper(rpc_url: str, start: Start) -> None:
    """Start orchestrations in process: HTTP to the same process is a third of the cost of a start.

    A request for which `start` returns None, such as a refused one, is still sent over HTTP.
    """
    original = importlib.import_module(f"{_DURABLE_MODELS}.utils.http_utils").post_async_request
    plain = re.compile(re.escape(rpc_url) + r"orchestrators/([\w.~-]+)/([\w.~-]+)", re.ASCII)

    @functools.wraps(original)
    async def post(url: str, data: Any = None, *more: Any, **named: Any) -> list[Any]:
        found = plain.fullmatch(url)
        if found is not None and (data is None or isinstance(data, str)):
            answer = await start(found[1], found[2], data)
            if answer is not None:
                return [202, answer]
        result: list[Any] = await original(url, data, *more, **named)
        return result

    client = importlib.import_module(f"{_DURABLE_MODELS}.DurableOrchestrationClient")
    client.post_async_request = post  # type: ignore[attr-defined]  # a name the SDK imported


def _make_replays_cheaper() -> None:
    """Replace work that the Durable SDK repeats in each episode.

    The SDK parses every timestamp of the history with dateutil: half of an orchestrator's running time. This
    host writes the timestamps as ISO 8601 with a `Z`, for which `datetime.fromisoformat` returns an equal,
    aware datetime. The SDK also creates the same named tuple class and parses the same two durations.
    """
    history = importlib.import_module(f"{_DURABLE_MODELS}.history.HistoryEvent")
    history.dt_parse = datetime.fromisoformat  # type: ignore[attr-defined]  # a name the SDK imported
    for module, name in (
        ("TaskOrchestrationExecutor", "namedtuple"),
        ("DurableOrchestrationContext", "parse_timespan_attrib"),
    ):
        models = importlib.import_module(f"{_DURABLE_MODELS}.{module}")
        setattr(models, name, functools.cache(getattr(models, name)))


class _Copied(list[Any]):
    """Returns a copy of each of its objects, so that a function may change its input."""

    def __getitem__(self, index: Any) -> Any:
        value = super().__getitem__(index)
        return dict(value) if isinstance(value, dict) else value


def _make_message_batches_cheaper() -> None:
    """Replace work that the library repeats for each message of a batch.

    For each message and field, the library parses the JSON of all messages. It also tries a dozen formats
    that require a zone for a time without a zone.
    """
    service_bus = importlib.import_module("azure.functions.servicebus")
    original = service_bus.json

    @functools.lru_cache(maxsize=16)
    def parse(text: str) -> Any:
        value = original.loads(text)
        return _Copied(value) if isinstance(value, list) else value

    def loads(text: str) -> Any:
        value = parse(text)
        return dict(value) if isinstance(value, dict) else value

    service_bus.json = SimpleNamespace(  # type: ignore[attr-defined]  # a name the library imported
        loads=loads, dumps=original.dumps
    )
    meta = importlib.import_module("azure.functions.meta")
    meta.try_parse_datetime_with_formats = parse_where_zones_agree(  # type: ignore[attr-defined]  # the same
        meta.try_parse_datetime_with_formats
    )


def parse_where_zones_agree(parse: _Parse) -> _Parse:
    """Return a parser that tries the formats which require a zone only for texts that end with one."""

    @functools.wraps(parse)
    def cheaper(text: str, formats: list[str]) -> _Parsed:
        if _ZONE.search(text):
            return parse(text, formats)
        possible = [each for each in formats if not _ZONE.search(each)]
        if not possible:
            return None, None, ValueError(f"time data {text!r} has no zone")
        return parse(text, possible)

    return cheaper
