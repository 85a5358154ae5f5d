"""The rows of the state store as they stand in the table, read without any code of the application's.

What the application's own reader would overlook, or mend, must be seen here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

#: What begins the row keys of index rows, and of announcements that are still to be sent.
INDEXES = ("!due|", "!error|", "!done|")
OUTBOX = "!send|"

FINAL = frozenset({"Processed", "Compensated", "Error"})


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class TaskRow(_Row):
    """The task's own row. Times are UTC."""

    state: str = Field(alias="ProcessState")
    locked_by: str | None = Field(None, alias="LockedBy")
    failure_count: int = Field(alias="FailureCount")
    epoch: int = Field(alias="Epoch")
    direction: str = Field(alias="Direction")
    finished_at: datetime | None = Field(None, alias="FinishedAt")
    last_error: str | None = Field(None, alias="LastError")
    write_id: str = Field(alias="WriteId")


class StepRow(_Row):
    """One step, in a row of its own or as it stood when an epoch ended. Times are UTC."""

    name: str = Field(alias="Name")
    state: str = Field("NotStarted", alias="State")
    complete_by: datetime | None = Field(None, alias="CompleteBy")
    started_at: datetime | None = Field(None, alias="StartedAt")
    finished_at: datetime | None = Field(None, alias="FinishedAt")
    epoch: int | None = Field(None, alias="Epoch")


class EpochRow(_Row):
    """An epoch that is over."""

    epoch: int = Field(alias="Epoch")
    ended_by: str = Field(alias="EndedBy")
    ended_at: datetime = Field(alias="EndedAt")
    state: str = Field(alias="ProcessState")
    direction: str = Field(alias="Direction")
    locked_by: str | None = Field(None, alias="LockedBy")
    steps: tuple[StepRow, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Read the row, whose steps are JSON."""
        return cls.model_validate({**row, "steps": _STEPS.validate_json(row["Steps"])})


_STEPS = TypeAdapter(tuple[StepRow, ...])


class TaskRows(BaseModel):
    """All rows of one task; what is missing is None, or empty."""

    model_config = ConfigDict(frozen=True)

    task: TaskRow | None = None
    has_order: bool = False
    steps: tuple[StepRow, ...] = ()
    history: tuple[EpochRow, ...] = ()
    index: tuple[str, ...] = ()
    outbox: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Tell whether the order, the task, its steps and its one index row are there."""
        return self.task is not None and self.has_order and bool(self.steps) and len(self.index) == 1

    @property
    def is_finished(self) -> bool:
        """Tell whether the task is at an end, and everything about it has been told."""
        return self.task is not None and self.task.state in FINAL and not self.outbox


def names(rejected: Iterable[Mapping[str, Any]], order: str) -> bool:
    """Tell whether a message that was kept aside is about this order."""
    return any(f'"{order}"'.encode() in row.get("Body", b"") for row in rejected)


def tasks_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, TaskRows]:
    """Sort rows, which come in the order of their keys, by task."""
    by_task: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        key: str = row["RowKey"]
        task = row.get("OrderID") if key.startswith("!") else key.split("|", maxsplit=1)[0]
        if task is not None:
            by_task[task].append(row)
    return {task: _task_rows(its_rows) for task, its_rows in by_task.items()}


def _task_rows(rows: Iterable[Mapping[str, Any]]) -> TaskRows:
    found: dict[str, Any] = defaultdict(list)
    for row in rows:
        key: str = row["RowKey"]
        match key.split("|"):
            case [_, "task"]:
                found["task"] = TaskRow.model_validate(dict(row))
            case [_, "order"]:
                found["has_order"] = True
            case [_, "step", _]:
                found["steps"].append(StepRow.model_validate(dict(row)))
            case [_, "epoch", _]:
                found["history"].append(EpochRow.of(row))
            case _ if key.startswith(INDEXES):
                found["index"].append(key)
            case _ if key.startswith(OUTBOX):
                found["outbox"].append(key)
    return TaskRows.model_validate(found)
