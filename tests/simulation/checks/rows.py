"""The rows of the state store as they are in the table, read without any code of the application.

What the application's own reader would overlook, or repair, must be visible here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

#: The prefixes of the row keys of index rows, and of announcements that are still to be sent.
INDEXES = ("!due|", "!parked|", "!error|", "!done|")
OUTBOX = "!send|"

FINAL = frozenset({"Processed", "Compensated", "Error"})


class _Row(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class RawTask(_Row):
    """The task's own row. Times are UTC."""

    state: str = Field(alias="ProcessState")
    locked_by: str | None = Field(None, alias="LockedBy")
    failure_count: int = Field(alias="FailureCount")
    epoch: int = Field(alias="Epoch")
    direction: str = Field(alias="Direction")
    last_error: str | None = Field(None, alias="LastError")
    run: int | None = Field(None, alias="Run")
    parked_for: str | None = Field(None, alias="ParkedFor")


class RawStep(_Row):
    """One step, in its own row or as it was when an epoch ended. Times are UTC."""

    name: str = Field(alias="Name")
    state: str = Field("NotStarted", alias="State")
    complete_by: datetime | None = Field(None, alias="CompleteBy")
    started_at: datetime | None = Field(None, alias="StartedAt")
    finished_at: datetime | None = Field(None, alias="FinishedAt")
    epoch: int | None = Field(None, alias="Epoch")
    #: What became known of it when that changed nothing any more: operators are told.
    noted: str | None = Field(None, alias="Noted")


class RawEpoch(_Row):
    """An epoch that has ended."""

    epoch: int = Field(alias="Epoch")
    ended_by: str = Field(alias="EndedBy")
    ended_at: datetime = Field(alias="EndedAt")
    state: str = Field(alias="ProcessState")
    direction: str = Field(alias="Direction")
    locked_by: str | None = Field(None, alias="LockedBy")
    steps: tuple[RawStep, ...]

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Read the row, whose steps are JSON; where none was begun, it has no such column."""
        return cls.model_validate({**row, "steps": _STEPS.validate_json(row.get("Steps", "[]"))})


_STEPS = TypeAdapter(tuple[RawStep, ...])


class TaskRows(BaseModel):
    """All rows of one task; what is missing is `None` or empty."""

    model_config = ConfigDict(frozen=True)

    task: RawTask | None = None
    steps: tuple[RawStep, ...] = ()
    history: tuple[RawEpoch, ...] = ()
    outbox: tuple[str, ...] = ()

    @property
    def is_finished(self) -> bool:
        """Whether the task is finished, and all its announcements are sent."""
        return self.task is not None and self.task.state in FINAL and not self.outbox


def names(rejected: Iterable[Mapping[str, Any]], order: str) -> bool:
    """Whether a rejected message is about this order."""
    return any(f'"{order}"'.encode() in body_of(row) for row in rejected)


def body_of(rejected: Mapping[str, Any]) -> bytes:
    """Join the parts of a rejected message's body; of a very large one, only the beginning is kept."""
    parts = sorted((name for name in rejected if name[4:].isdigit() and name.startswith("Body")), key=len)
    return b"".join(rejected[name] for name in parts)


def tasks_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, TaskRows]:
    """Group rows, which are in the order of their keys, by task."""
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
                found["task"] = RawTask.model_validate(dict(row))
            case [_, "step", _]:
                found["steps"].append(RawStep.model_validate(dict(row)))
            case [_, "epoch", _]:
                found["history"].append(RawEpoch.of(row))
            case _ if key.startswith(OUTBOX):
                found["outbox"].append(key)
    return TaskRows.model_validate(found)
