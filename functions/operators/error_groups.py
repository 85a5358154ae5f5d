"""Tasks in `Error`, grouped by cause. They are counted by their index rows; no task is read."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from functions.core.derive import ProcessState
from functions.messaging.message_format import UtcTime
from functions.operators.task_list import CorruptRow, TaskFilter, Version, WorkflowName, read_shard, time_of
from functions.storage.index_pages import ListedTask
from functions.storage.row_keys import TaskIndex, index_range
from functions.storage.task_storage import TaskStorage


class GroupsQuery(BaseModel):
    """The tasks in `Error` that are grouped."""

    model_config = ConfigDict(extra="forbid")

    workflow: WorkflowName | None = None
    version: Version | None = None
    before: Annotated[UtcTime | None, Field(description="`looked_to` of the previous answer")] = None


class ErrorGroup(BaseModel):
    """Tasks that failed for one cause: one step of one version, with errors of one class.

    `error` is the class: the text without numbers, ids and quoted values. `step` is null if the error names
    none. `example` failed last. `filter` selects the tasks of the group in lists.
    """

    workflow: str
    version: int
    step: str | None
    error: str
    count: int
    first_at: datetime
    last_at: datetime
    example: str
    filter: dict[str, Any]


class ErrorGroups(BaseModel):
    """The groups, the largest first, of all tasks that failed after `looked_to`; null: of all tasks.

    `corrupt` are index rows that cannot be decoded; their tasks are in no group.
    """

    groups: list[ErrorGroup]
    looked_to: datetime | None
    corrupt: list[CorruptRow]


async def error_groups(storage: TaskStorage, query: GroupsQuery) -> ErrorGroups:
    """Group the newest 1,000 tasks in `Error` of each shard. Raises `TransientStorageError`."""
    until = None if query.before is None else query.before + timedelta.resolution
    rows = index_range(TaskIndex.ERROR, until=until)
    shards = range(storage.shards)
    pages = await asyncio.gather(*(read_shard(storage, each, rows) for each in shards))
    # Every page contains all tasks of its shard that failed after this time.
    ends = [time_of(page.entries[-1]) for page in pages if page.cursor is not None]
    looked_to = max(ends, default=None)
    entries = (
        entry
        for page in pages
        for entry in page.entries
        if (looked_to is None or time_of(entry) > looked_to)
        and query.workflow in {None, entry.workflow}
        and query.version in {None, entry.version}
    )
    corrupt = [CorruptRow.model_validate(row) for page in pages for row in page.corrupt]
    return ErrorGroups(groups=_grouped(entries), looked_to=looked_to, corrupt=corrupt)


def _grouped(entries: Iterable[ListedTask]) -> list[ErrorGroup]:
    groups: defaultdict[tuple[str, int, str | None, str], list[ListedTask]] = defaultdict(list)
    for entry in entries:
        cause = entry.workflow, entry.version, entry.failed_step, entry.error_class or ""
        groups[cause].append(entry)
    found = [_group(each) for each in groups.values()]
    return sorted(found, key=lambda each: (-each.count, each.example))


def _group(entries: list[ListedTask]) -> ErrorGroup:
    entries.sort(key=lambda entry: (time_of(entry), entry.task))
    first, last = entries[0], entries[-1]
    cause = TaskFilter(
        state=ProcessState.ERROR,
        workflow=last.workflow,
        version=last.version,
        step=last.failed_step,
        error=last.error_class,
    )
    return ErrorGroup(
        workflow=last.workflow,
        version=last.version,
        step=last.failed_step,
        error=last.error_class or "",
        count=len(entries),
        first_at=time_of(first),
        last_at=time_of(last),
        example=last.task,
        filter=cause.model_dump(mode="json", exclude_defaults=True),
    )
