"""Cleans texts that come from outside, such as errors, of secrets: as they are recorded, and when shown."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any

from functions.pattern.contents import Contents
from functions.pattern.definition import Registry
from functions.pattern.events import Event, Parked, StepFailed
from functions.pattern.records import TaskRecord
from functions.pattern.texts import without_long_numbers

#: Fields of events and records whose texts somebody else has made, or are made of such.
TEXTS = frozenset({"error", "fault", "last_error", "lasting", "noted", "reason", "told_why"})


def clean(registry: Registry, record: TaskRecord, event: Event) -> Event:
    """Give an event without the task's secrets in its texts, which are whole: a transition cuts them."""
    without = Contents(registry, record).without_secrets
    match event:
        case Parked():  # what is missing may be what would say what is secret
            return _cleaned(event, partial(without, unknown=event.lasting or event.reason))
        case StepFailed():
            return _cleaned(event, lambda text: without_long_numbers(without(text)))
        case _:
            return _cleaned(event, without)


def to_be_shown(registry: Registry, record: TaskRecord) -> TaskRecord:
    """Give a record without what is known to be secret by now: its model may have been marked since."""
    without = cache(_without_secrets_of(registry, record))  # many steps and epochs say the same

    def of[T](part: T) -> T:
        return _cleaned(part, without)

    task, decision = of(record.task), record.task.decision
    return replace(
        record,
        task=task if decision is None else replace(task, decision=of(decision)),
        steps=tuple(map(of, record.steps)),
        history=tuple(replace(of(past), steps=tuple(map(of, past.steps))) for past in record.history),
        lost=tuple(map(of, record.lost)),
    )


def line_to_be_shown(registry: Registry, record: TaskRecord) -> TaskRecord:
    """Give a record of which the task's own texts are so; a list has many of them, and shows no others."""
    return replace(record, task=_cleaned(record.task, _without_secrets_of(registry, record)))


def _without_secrets_of(registry: Registry, record: TaskRecord) -> Callable[[str], str]:
    contents = Contents(registry, record)
    return lambda text: contents.without_secrets(text, unknown=text)


def _cleaned[T](of: T, without: Callable[[str], str]) -> T:
    """Clean the texts of a dataclass."""
    part: Any = of
    texts = {each.name: getattr(part, each.name) for each in fields(part) if each.name in TEXTS}
    texts = {name: without(text) for name, text in texts.items() if text is not None}
    cleaned: T = replace(part, **texts) if texts else of
    return cleaned
