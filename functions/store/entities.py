"""Maps the records of a task to rows of the table, and back; each row kind is one frozen dataclass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from datetime import datetime
from enum import StrEnum
from functools import partial
from operator import attrgetter
from types import NoneType
from typing import Any, NewType, get_args, get_origin, get_type_hints

from pydantic import TypeAdapter

from functions.pattern.announcements import Announcement
from functions.pattern.breaker import BreakerRecord
from functions.pattern.errors import UnreadableError
from functions.pattern.identity import TaskId
from functions.pattern.records import EpochRecord, LostMessage, Order, Task, TaskRecord
from functions.pattern.shape import Shape, read_shape
from functions.pattern.step_records import StepRecord
from functions.pattern.texts import bounded
from functions.store.keys import outbox_row, task_row

#: What the SDK takes and gives: property names and their values.
Entity = dict[str, Any]

#: Property by which a writer recognises its own write when the answer to it was lost. On the row of a task it
#: holds the ids of the latest writes, newest first, since others may have written after it.
WRITE_ID = "WriteId"

_ANNOUNCEMENT = TypeAdapter(Announcement)

#: Bytes of what is said about a row that can't be read.
_MOST_REASON_BYTES = 200


def unreadable(row: Mapping[str, Any], error: Exception) -> UnreadableError:
    """Name a row that can't be read, and why; its values are not shown."""
    if isinstance(error, UnreadableError):
        return error
    said = str(error).partition("\n")[0]
    reason = bounded(f"{type(error).__name__}: {said}", _MOST_REASON_BYTES)
    return UnreadableError(str(row.get("RowKey")), reason)


def readable[RowT](
    read: Callable[[Mapping[str, Any]], RowT], rows: Iterable[Mapping[str, Any]]
) -> tuple[tuple[RowT, ...], tuple[UnreadableError, ...]]:
    """Read rows, and set those apart that can't be read: one that is damaged hides no other."""
    found: list[RowT] = []
    damaged: list[UnreadableError] = []
    for row in rows:
        try:
            found.append(read(row))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it
            damaged.append(unreadable(row, error))
    return tuple(found), tuple(damaged)


@dataclass(frozen=True, slots=True)
class _ColumnType:
    """Which types a column may have in the row, and how they are converted, if they are."""

    stored: tuple[type, ...]
    write: Callable[[Any], Any] | None = None
    read: Callable[[Any], Any] | None = None


class RowCodec[RecordT]:
    """Maps a dataclass to columns: the field `started_at` is `StartedAt`, unless `names` says otherwise.

    Enums are stored as text, dataclasses and tuples of them as JSON; None or an empty tuple is no column, as
    rows are replaced whole.
    The field `elsewhere` has no column: whoever reads the row knows it already.
    """

    def __init__(
        self, kind: type[RecordT], names: Mapping[str, str], *, elsewhere: str | None = None
    ) -> None:
        hints = get_type_hints(kind)
        self._kind = kind
        self._columns = {
            name: names.get(name) or name.title().replace("_", "") for name in hints if name != elsewhere
        }
        self._values = attrgetter(*self._columns)
        types = {name: _column_type(hints[name]) for name in self._columns}
        self._types = [each.stored for each in types.values()]
        self._written = [(self._columns[name], each.write) for name, each in types.items() if each.write]
        self._read = [(name, each.read) for name, each in types.items() if each.read]
        self._tuples = [name for name in self._columns if get_origin(hints[name]) is tuple]
        #: Types of whole rows that were checked: they are few, and a look-up is faster than the check.
        self._valid = set[tuple[type, ...]]()

    @property
    def columns(self) -> list[str]:
        """Return the names of the columns, with the row key."""
        return ["RowKey", *self._columns.values()]

    def encode(self, row_key: str, record: RecordT) -> Entity:
        """Make the row of a record."""
        columns = zip(self._columns.values(), self._values(record), strict=False)
        entity: Entity = {name: value for name, value in columns if value is not None and value != ()}
        for name, write in self._written:
            if name in entity:
                entity[name] = write(entity[name])
        entity["RowKey"] = row_key
        entity["SchemaVersion"] = 1
        return entity

    def decode(self, entity: Mapping[str, Any], **elsewhere: Any) -> RecordT:
        """Read a record. Raises `UnreadableError` when a column is missing, or has what nobody knows."""
        try:
            return self._decoded(entity, elsewhere)
        except Exception as error:
            raise unreadable(entity, error) from error

    def _decoded(self, entity: Mapping[str, Any], elsewhere: Mapping[str, Any]) -> RecordT:
        values = {name: entity.get(column) for name, column in self._columns.items()}
        types = tuple(map(type, values.values()))
        if types not in self._valid:
            self._check(values)
            self._valid.add(types)
        for name, read in self._read:
            if values[name] is not None:
                values[name] = read(values[name])
        for name in self._tuples:
            values[name] = values[name] or ()
        return self._kind(**values, **elsewhere)

    def _check(self, values: Mapping[str, Any]) -> None:
        for (name, value), expected in zip(values.items(), self._types, strict=True):
            if not isinstance(value, expected):
                raise ValueError(f"{self._columns[name]} can't be {type(value).__name__}")  # noqa: TRY004 - a row


def _column_type(hint: Any) -> _ColumnType:
    if NoneType in get_args(hint):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        kind = _column_type(hint)
        return replace(kind, stored=(*kind.stored, NoneType))
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    if get_origin(hint) is tuple:
        adapter = TypeAdapter(hint)
        return _ColumnType(
            (bytes, NoneType), partial(adapter.dump_json, exclude_none=True), adapter.validate_json
        )
    if issubclass(hint, StrEnum):
        return _ColumnType((str,), str, hint)
    if hint is Shape:
        return _ColumnType((bytes,), attrgetter("written"), read_shape)
    if is_dataclass(hint):
        adapter = TypeAdapter(hint)
        return _ColumnType((bytes,), partial(adapter.dump_json, exclude_none=True), adapter.validate_json)
    if hint in {str, int, bool, bytes, datetime}:
        return _ColumnType((hint,))
    raise TypeError(f"a table has no column for {hint}")


#: Columns whose names differ from the rule; `OrderID` is the pattern's own name.
_NAMES = {
    "order_id": "OrderID",
    "correlation_id": "CorrelationID",
    "traceparent": "TraceParent",
    "at": "LostAt",
}
BREAKER = RowCodec(BreakerRecord, _NAMES)

#: The parts of a task's record, as their row keys name them behind the task's id.
_PARTS: Mapping[str, type] = {
    "order": Order,
    "task": Task,
    "step": StepRecord,
    "epoch": EpochRecord,
    "lost": LostMessage,
}
#: An order's task is in its row key, and a step's shape is a part of the order's.
_ELSEWHERE: Mapping[type, str] = {Order: "task", StepRecord: "shape"}
_CODECS: Mapping[type, RowCodec[Any]] = {
    kind: RowCodec(kind, _NAMES, elsewhere=_ELSEWHERE.get(kind)) for kind in _PARTS.values()
}


def entity(row_key: str, record: Order | Task | StepRecord | EpochRecord | LostMessage) -> Entity:
    """Make the row of a part of a task's record."""
    row = _CODECS[type(record)].encode(row_key, record)
    return row | {"Name": record.name} if isinstance(record, StepRecord) else row


def task_entity(task: Task, writes: Sequence[str]) -> Entity:
    """Make the row of the task, with the column names that the pattern gives them."""
    return entity(task_row(task.order_id), task) | {WRITE_ID: ",".join(writes)}


def writes_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Read the ids of the latest writes from the row of a task."""
    return tuple(row[WRITE_ID].split(","))


def task_of(row: Mapping[str, Any]) -> Task:
    """Read a task's state from its row. Raises `UnreadableError`."""
    task: Task = _CODECS[Task].decode(row)
    return task


def outbox_entity(announcement: Announcement) -> Entity:
    """Make the row of an announcement that is to be sent."""
    return {
        "RowKey": outbox_row(announcement),
        "OrderID": announcement.task,
        "Announcement": _ANNOUNCEMENT.dump_json(announcement).decode(),
    }


def announcement_of(row: Mapping[str, Any]) -> Announcement:
    """Read an announcement from its row."""
    return _ANNOUNCEMENT.validate_json(row["Announcement"])


def record_of(rows: Iterable[Mapping[str, Any]]) -> TaskRecord:
    """Read one task's record from its rows, which come sorted by row key. Raises `ValueError`."""
    parts: dict[str, list[Mapping[str, Any]]] = {part: [] for part in _PARTS}
    for row in rows:
        part = row["RowKey"].split("|")[1]
        if part in _PARTS:  # others were written by a later version, for itself
            parts[part].append(row)
    if not parts["order"] or not parts["task"]:
        raise ValueError("the rows of a task lack its order or its state")
    task, order = task_of(parts["task"][0]), _order_of(parts["order"][0])
    shapes = order.steps
    if [row["Name"] for row in parts["step"]] != [step.name for step in shapes]:
        raise ValueError(f"task {task.order_id} has other steps than its order says")
    steps = zip(parts["step"], shapes, strict=True)
    return TaskRecord(
        order=order,
        task=task,
        steps=tuple(_CODECS[StepRecord].decode(row, shape=shape) for row, shape in steps),
        history=tuple(map(_CODECS[EpochRecord].decode, parts["epoch"])),
        lost=tuple(map(_CODECS[LostMessage].decode, parts["lost"])),
    )


def _order_of(row: Mapping[str, Any]) -> Order:
    order: Order = _CODECS[Order].decode(row, task=TaskId(row["RowKey"].partition("|")[0]))
    return order
