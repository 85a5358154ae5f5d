"""Events as the JSON text that the SDK reads and the database keeps.

`IsPlayed` is always false: the SDK from 1.7.0 on treats every event before the last OrchestratorStarted as
played. So the text of an event is encoded once and is the same in every later history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, TypeAliasType, get_args

from functions_local.durable.events import Event, EventType


def _members(union: TypeAliasType) -> Iterator[type[Event]]:
    """List the classes of a union and of the unions in it."""
    for member in get_args(union.__value__):
        if isinstance(member, TypeAliasType):
            yield from _members(member)
        else:
            yield member


def _keys(event_class: type[Event]) -> tuple[tuple[str, str], ...]:
    """Pair each field with its JSON key: task_scheduled_id with TaskScheduledId."""
    return tuple((f.name, f.name.title().replace("_", "")) for f in fields(event_class))


_BY_KIND: dict[int, type[Event]] = {event_class.kind: event_class for event_class in _members(Event)}
_KEYS: dict[EventType, tuple[tuple[str, str], ...]] = {c.kind: _keys(c) for c in _BY_KIND.values()}

#: Each field with the text before its value.
_LABELS = {kind: tuple((name, f',"{key}":') for name, key in keys) for kind, keys in _KEYS.items()}

#: Compact JSON, in ASCII, so that even a lone surrogate can be stored.
to_json = json.JSONEncoder(separators=(",", ":")).encode


def encode(event: Event) -> str:
    """Write an event as in history."""
    text = f'{{"EventType":{event.kind:d},"IsPlayed":false'
    for name, label in _LABELS[event.kind]:
        value = getattr(event, name)
        if value is None:
            text += f"{label}null"
        else:
            text += label + (str(value) if type(value) is int else to_json(value))
    return text + "}"


def from_body(body: dict[str, Any]) -> Event:
    """Make the event from a parsed JSON object that `encode` wrote."""
    event_class = _BY_KIND[body["EventType"]]
    return event_class(**{name: body[key] for name, key in _KEYS[event_class.kind]})


def decode(text: str) -> Event:
    """Read an event that `encode` wrote."""
    return from_body(json.loads(text))
