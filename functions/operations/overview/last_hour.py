"""The counts of the console's first page: tasks by workflow and by version, and the last hour."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from pydantic import BaseModel

from functions.pattern.definition import Workflow
from functions.pattern.occurrences import TaskCounter
from functions.pattern.store_ports import Index, IndexEntry

_NEEDS = {Index.DUE: "under_way", Index.PARKED: "parked", Index.ERROR: "in_error"}


class MinuteView(BaseModel):
    """The counts of tasks in the minute that began `at` that time."""

    at: datetime
    accepted: int
    processed: int
    compensated: int
    error: int
    recovered: int


class VersionLine(BaseModel):
    """The tasks of one version of a workflow that still need it; one that none needs can be dropped."""

    workflow: str
    version: int
    deployed: bool
    under_way: int = 0
    parked: int = 0
    in_error: int = 0


class WorkflowLine(BaseModel):
    """The tasks of one workflow that are not finished."""

    workflow: str
    under_way: int = 0
    overdue: int = 0
    parked: int = 0
    in_error: int = 0


def first_minute(now: datetime) -> datetime:
    """Return the first of the 60 complete minutes before `now`."""
    return now.replace(second=0, microsecond=0) - timedelta(hours=1)


def minutes(counts: Mapping[datetime, Mapping[TaskCounter, int]], now: datetime) -> list[MinuteView]:
    """Return the last hour, minute by minute. The newest minute may lack counts for some seconds."""
    times = [first_minute(now) + timedelta(minutes=number) for number in range(60)]
    return [
        MinuteView(at=at, **{each.value: counts.get(at, {}).get(each, 0) for each in TaskCounter})
        for at in times
    ]


def by_workflow(entries: Iterable[tuple[Index, IndexEntry]], now: datetime) -> list[WorkflowLine]:
    """Count for each workflow, by name."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for index, entry in entries:
        is_overdue = index is Index.DUE and entry.at <= now
        counts[entry.workflow].update([_NEEDS[index], "overdue"] if is_overdue else [_NEEDS[index]])
    return [WorkflowLine(workflow=name, **counts[name]) for name in sorted(counts)]


def by_version(
    entries: Iterable[tuple[Index, IndexEntry]], deployed: Iterable[Workflow]
) -> list[VersionLine]:
    """Count for each version that is deployed or needed, by name and number."""
    here = {(each.name, each.version) for each in deployed}
    counts: dict[tuple[str, int], Counter[str]] = {version: Counter() for version in here}
    for index, entry in entries:
        counts.setdefault((entry.workflow, entry.version), Counter())[_NEEDS[index]] += 1
    return [
        VersionLine(workflow=name, version=version, deployed=(name, version) in here, **counts[name, version])
        for name, version in sorted(counts)
    ]
