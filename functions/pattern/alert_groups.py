"""Alerts of one cause: the first ones are told singly, the others together, as one with a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from pydantic import TypeAdapter, ValidationError

from functions.pattern.times import ZonedTime

#: Alerts of one cause that come within this time are of one group; it is told when the time is over.
WINDOW = timedelta(minutes=5)
#: Groups that are kept at a time, and tasks that each names.
_MOST_GROUPS = 100
_MOST_NAMED = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertGroup:
    """Alerts about tasks of a workflow in one state, for one `reason` without what differs between them.

    Since that time (UTC) so many were `told` singly, and so many are `waiting` to be told together, of which
    some are `named`.
    """

    workflow: str
    state: str
    reason: str
    since: ZonedTime
    told: int = 0
    waiting: int = 0
    named: tuple[str, ...] = ()

    @property
    def cause(self) -> tuple[str, str, str]:
        """What its alerts have in common."""
        return self.workflow, self.state, self.reason


_GROUPS: TypeAdapter[tuple[AlertGroup, ...]] = TypeAdapter(tuple[AlertGroup, ...])


def joined(
    groups: Sequence[AlertGroup], of: AlertGroup, task: str, singly: int
) -> tuple[tuple[AlertGroup, ...], bool]:
    """Add an alert about a task, which comes now (`of.since`); tell whether it is told by itself.

    It is, as one of the first `singly`, and as one of a cause too many to keep in mind. One that is not taken
    and comes again counts again: while none is taken, alerts come to wait here, not to die on their queue.
    """
    kept = tuple(each for each in groups if each.waiting or of.since < each.since + WINDOW)
    known = next((each for each in kept if each.cause == of.cause), None)
    if known is None and len(kept) >= _MOST_GROUPS:
        return kept, True
    group = known or of
    others = tuple(each for each in kept if each.cause != of.cause)
    if group.told < singly:
        return (*others, replace(group, told=group.told + 1)), True
    named = (*group.named, task)[:_MOST_NAMED]
    return (*others, replace(group, waiting=group.waiting + 1, named=named)), False


def due(groups: Sequence[AlertGroup], now: datetime) -> tuple[AlertGroup, ...]:
    """Give the groups that are to be told."""
    return tuple(each for each in groups if each.waiting and now >= each.since + WINDOW)


def after_telling(groups: Sequence[AlertGroup], told: AlertGroup, now: datetime) -> tuple[AlertGroup, ...]:
    """Begin the time of a group anew that was told; what came meanwhile, and what comes, waits again.

    One whose time has begun anew since it was read was told by another, or by us, and stays as it is.
    """
    return tuple(
        replace(each, since=now, waiting=each.waiting - told.waiting, named=each.named[len(told.named) :])
        if (each.cause, each.since) == (told.cause, told.since)
        else each
        for each in groups
    )


def read_groups(content: bytes | None) -> tuple[AlertGroup, ...]:
    """Read what was kept; what can't be read is forgotten: its alerts stand in the log."""
    try:
        return () if content is None else _GROUPS.validate_json(content)
    except ValidationError:
        return ()


def written_groups(groups: tuple[AlertGroup, ...]) -> bytes:
    """Write what is kept."""
    return _GROUPS.dump_json(groups)
