"""Tasks in `Error`, grouped by cause: counted by their index, never by reading tasks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.operations.tasks.listing import read_on
from functions.operations.tasks.query import ListQuery, Version, WorkflowName
from functions.operations.tasks.views import UnreadableRow
from functions.pattern.identity import StepName, TaskId
from functions.pattern.ports import Ports
from functions.pattern.states import ProcessState
from functions.pattern.store_ports import Index, IndexEntry
from functions.pattern.times import UtcTime


class GroupsQuery(BaseModel):
    """Which tasks in `Error` are grouped; `before` is where an answer before had looked to."""

    model_config = ConfigDict(extra="forbid")

    workflow: WorkflowName | None = None
    version: Version | None = None
    before: Annotated[UtcTime | None, Field(description="`looked_to` of the answer before, to go on")] = None


class ErrorGroup(BaseModel):
    """Tasks that failed for one cause: at one step of one version, with errors of one class.

    `error` is the class: the text without numbers, ids and quoted values. `step` is null where the error
    names none. `example` failed last. `filter` are the parameters of the list of tasks that has these.
    """

    workflow: str
    version: int
    step: StepName | None
    error: str
    count: int
    first_at: datetime
    last_at: datetime
    example: TaskId
    filter: dict[str, Any]


class ErrorGroups(BaseModel):
    """The groups, the largest first. All tasks were looked at that failed after `looked_to`; null: all.

    `unreadable` are rows that are damaged: they are in no group.
    """

    groups: list[ErrorGroup]
    looked_to: datetime | None
    unreadable: list[UnreadableRow]


@dataclass(frozen=True, slots=True)
class _Cause:
    workflow: str
    version: int
    step: StepName | None
    error: str


class Groups:
    """Groups tasks in `Error` in one request for each shard, and more only for empty answers."""

    def __init__(self, ports: Ports) -> None:
        self._index = ports.index

    async def read(self, query: GroupsQuery) -> ErrorGroups:
        """Group the latest of them, up to a thousand of each shard. Raises `TransientError`."""
        until = None if query.before is None else query.before + timedelta.resolution
        shards = range(self._index.shards)
        read = partial(self._index.page, Index.ERROR, until=until, most=1_000)
        pages = await asyncio.gather(*(read_on(read, each) for each in shards))
        # The pages show all tasks that failed after this time; None: all of them.
        ends = [page.entries[-1].at for page in pages if page.continuation is not None]
        looked_to = max(ends, default=None)
        entries = (
            each
            for page in pages
            for each in page.entries
            if (looked_to is None or each.at > looked_to)
            and query.workflow in {None, each.workflow}
            and query.version in {None, each.version}
        )
        damaged = [UnreadableRow.model_validate(row) for page in pages for row in page.unreadable]
        return ErrorGroups(groups=grouped(entries), looked_to=looked_to, unreadable=damaged)


def grouped(entries: Iterable[IndexEntry]) -> list[ErrorGroup]:
    """Group tasks in `Error` by their causes, the largest group first."""
    groups: defaultdict[_Cause, list[IndexEntry]] = defaultdict(list)
    for entry in entries:
        cause = _Cause(entry.workflow, entry.version, entry.step, entry.error or "")
        groups[cause].append(entry)
    return sorted((_group(*each) for each in groups.items()), key=lambda each: (-each.count, each.example))


def _group(cause: _Cause, entries: Sequence[IndexEntry]) -> ErrorGroup:
    by_time = sorted(entries, key=lambda entry: (entry.at, entry.task))
    query = ListQuery(
        state=ProcessState.ERROR,
        workflow=cause.workflow,
        version=cause.version,
        step=cause.step,
        error=cause.error,
    )
    return ErrorGroup(
        workflow=cause.workflow,
        version=cause.version,
        step=cause.step,
        error=cause.error,
        count=len(entries),
        first_at=by_time[0].at,
        last_at=by_time[-1].at,
        example=by_time[-1].task,
        filter=query.model_dump(mode="json", exclude_none=True, exclude_defaults=True),
    )
