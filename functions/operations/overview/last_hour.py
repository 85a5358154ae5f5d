"""What the index entries of the last hour come to: pure counting, by workflow and by version."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from pydantic import BaseModel

from functions.pattern.definition import Workflow
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry, IndexPage
from functions.pattern.trends import Period

_NEEDS = {Index.DUE: "under_way", Index.PARKED: "parked", Index.ERROR: "in_error"}

_MINUTES = 60


@dataclass(frozen=True, slots=True)
class Finished:
    """Tasks that finished at `since` or later; `more` says that some of those are missing."""

    entries: tuple[IndexEntry, ...]
    since: datetime
    more: bool


class EndToEnd(BaseModel):
    """Seconds from submission to the end of `tasks` that were processed or compensated."""

    p50: float
    p99: float
    tasks: int


class VersionLine(BaseModel):
    """The tasks of one version of a workflow that still need it; one that none needs can be dropped."""

    workflow: str
    version: int
    deployed: bool
    under_way: int = 0
    parked: int = 0
    in_error: int = 0


class WorkflowLine(BaseModel):
    """The tasks of one workflow; what is finished is of the last hour."""

    workflow: str
    under_way: int = 0
    overdue: int = 0
    parked: int = 0
    in_error: int = 0
    processed: int = 0
    compensated: int = 0


def beginning_of_hour(now: datetime) -> datetime:
    """Give the beginning of the first of the sixty minutes, of which the last still runs."""
    return Period.MINUTE.start(now) - (_MINUTES - 1) * Period.MINUTE.length


def finished_in_last_hour(pages: Iterable[IndexPage], now: datetime) -> Finished:
    """Choose what finished in the last hour out of the shards' first pages, which have the newest.

    Where a page does not reach so far back, the time looked back on is shortened to the minutes that all
    pages cover; at the least, to the minute that runs.
    """
    read = list(pages)
    # How far back the pages go that are not the last ones.
    reached = [page.entries[-1].at if page.entries else now for page in read if page.continuation is not None]
    since = max([beginning_of_hour(now), *(Period.MINUTE.start(at) + Period.MINUTE.length for at in reached)])
    since = min(since, Period.MINUTE.start(now))
    entries = tuple(entry for page in read for entry in page.entries if entry.at >= since)
    return Finished(entries, since, more=any(at >= since for at in reached))


def end_to_end(finished: Iterable[IndexEntry]) -> EndToEnd | None:
    """Tell how long tasks took; None when none has finished."""
    # Hosts' clocks may differ, but nothing ends before it began.
    took = sorted(max(0.0, (each.at - each.submitted_at).total_seconds()) for each in finished)
    if not took:
        return None
    return EndToEnd(p50=_percentile(took, 0.5), p99=_percentile(took, 0.99), tasks=len(took))


def by_workflow(entries: Iterable[tuple[Index, IndexEntry]], now: datetime) -> list[WorkflowLine]:
    """Count for each workflow, by name."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for index, entry in entries:
        counts[entry.workflow].update(_kinds(index, entry, now))
    return [WorkflowLine(workflow=name, **counts[name]) for name in sorted(counts)]


def by_version(
    entries: Iterable[tuple[Index, IndexEntry]], deployed: Iterable[Workflow]
) -> list[VersionLine]:
    """Count for each version that is deployed or needed, by name and number."""
    here = {(each.name, each.version) for each in deployed}
    counts: dict[tuple[str, int], Counter[str]] = {version: Counter() for version in here}
    for index, entry in entries:
        if index is not Index.DONE:
            counts.setdefault((entry.workflow, entry.version), Counter())[_NEEDS[index]] += 1
    return [
        VersionLine(workflow=name, version=version, deployed=(name, version) in here, **counts[name, version])
        for name, version in sorted(counts)
    ]


def _kinds(index: Index, entry: IndexEntry, now: datetime) -> list[str]:
    if index is Index.ERROR:
        return ["in_error"]
    if index is Index.PARKED:
        return ["parked"]
    if index is Index.DONE:
        return ["processed" if entry.state is ProcessState.PROCESSED else "compensated"]
    return ["under_way", "overdue"] if entry.at <= now else ["under_way"]


def _percentile(ordered: Sequence[float], part: float) -> float:
    """Give the nearest-rank percentile."""
    return ordered[math.ceil(part * len(ordered)) - 1]
