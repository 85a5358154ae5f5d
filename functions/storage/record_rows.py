"""The rows of a task: order, task, one for each step on record, closed epochs, index rows and its outbox.

Values that operators filter by are columns; all other facts are JSON in few columns.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json

from functions.core import record as core
from functions.core.derive import derive
from functions.core.error_texts import error_class, failed_step
from functions.core.json_values import bounded
from functions.core.record import NOT_STARTED, Operation, Order, StepRecord, StepSpec, TaskRecord, replace
from functions.storage import row_keys as keys
from functions.storage.table_contract import CorruptRowError, Row, RowChange, UnwritableRowsError

#: Ids of the latest writes in the task row. A writer whose answer was lost finds its own id there.
_MOST_WRITES = 8
#: Characters of one property: at most 64 KiB of UTF-16 (Table Storage), also with surrogate pairs.
_MOST_CHARACTERS = 16_000


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A record with the version of the task row and the ids of its latest writes, the newest first.

    `index` is the key of the task's index row.
    """

    record: TaskRecord
    etag: str
    writes: tuple[str, ...]
    index: str


def admission(
    record: TaskRecord, write: str, search_keys: Collection[str] = (), reserved: str | None = None
) -> tuple[list[RowChange], StoredTask]:
    """Return the changes that insert a new task, the task row first. `write` is the id of the write.

    Operators find the task by its `search_keys`. `reserved` is the ETag of its reservation, if it has one.
    """
    kept, order = _without_additions(record), record.order
    stored = StoredTask(kept, "", (write,), keys.index_key(kept))
    found_by = [keys.find_key(key, order.submitted_at, order.task) for key in search_keys]
    row = _order_row(order, search_keys)
    changes = [
        RowChange("insert", keys.task_key(order.task), _task_row(stored)),
        RowChange("update" if reserved else "insert", keys.order_key(order.task), row, reserved or "*"),
        *_step_changes(record, replace(record, steps={})),
        *(RowChange("upsert", key, row) for key, row in index_rows(stored).items()),
        *(RowChange("upsert", key, _listed(order)) for key in found_by),
        *_additions(record),
    ]
    return changes, stored


def difference(
    base: StoredTask,
    after: TaskRecord,
    write: str,
    *,
    missing: Collection[str] = (),
    moves_index: bool = False,
) -> tuple[list[RowChange], StoredTask]:
    """Return the changes from a stored record to the next one; the first one guards by the task row's ETag.

    The index row of a task that is due later stays, so a quick task never moves it: only a deferral and a
    sweep (`moves_index`) do. `missing` are keys of index rows that do not exist.
    """
    task, kept = after.order.task, _without_additions(after)
    index, due = keys.index_key(kept), f"{keys.TaskIndex.DUE}|"
    is_later = base.index.startswith(due) and index.startswith(due) and base.index < index
    if is_later and not derive(kept).gates and not moves_index:
        index = base.index
    writes = (write, *base.writes)[:_MOST_WRITES]
    stored = StoredTask(kept, base.etag, writes, index)
    changes = [RowChange("update", keys.task_key(task), _task_row(stored), base.etag)]
    changes += _step_changes(after, base.record)
    obsolete = [base.index] if index != base.index else []
    changes += [RowChange("upsert", index, _index_row(stored)) for _ in obsolete]
    earlier, later = _gate_rows(base.record), _gate_rows(kept)
    changes += [RowChange("upsert", key, row) for key, row in later.items() if earlier.get(key) != row]
    obsolete += [key for key in earlier if key not in later]
    changes += [RowChange("delete", key) for key in obsolete if key not in missing]
    return [*changes, *_additions(after)], stored


def index_rows(stored: StoredTask) -> dict[str, Row]:
    """Return the rows by which a task is found by state and gate, by key."""
    return {stored.index: _index_row(stored), **_gate_rows(stored.record)}


def _without_additions(record: TaskRecord) -> TaskRecord:
    """Return the record as it is read again: without closed epochs and messages."""
    return replace(record, outbox=(), closed=()) if record.outbox or record.closed else record


def _step_changes(record: TaskRecord, before: TaskRecord) -> Iterator[RowChange]:
    """Return the changes of steps. Large texts are sent once, so a change of all steps fits."""
    for name, step in record.steps.items():
        old = before.steps.get(name)
        if (step is not old and step != old) or record.direction is not before.direction:
            key, state = f"{record.order.task}|step|{name}", str(step.operation(record.direction).state)
            row, known = {"State": state, **_facts_of(step)}, {} if old is None else _facts_of(old)
            changed = {column: value for column, value in row.items() if known.get(column) != value}
            is_kept = known.keys() <= row.keys()
            yield RowChange("merge", key, changed) if is_kept else RowChange("upsert", key, row)


def _additions(record: TaskRecord) -> Iterator[RowChange]:
    """Return the rows of closed epochs and of messages."""
    for closed in record.closed:
        row = {"Epoch": closed.epoch, "Ended": str(closed.end), **split("Facts", _json(_CLOSED, closed))}
        yield RowChange("upsert", f"{record.order.task}|epoch|{closed.epoch:06d}", row)
    yield from map(message_change, record.messages)


def message_change(message: core.Message) -> RowChange:
    """Return the change that adds a message to the outbox."""
    row = {"OrderID": message.task, **split("Message", _json(_MESSAGE, message))}
    return RowChange("upsert", keys.message_key(message), row)


def _gate_rows(record: TaskRecord) -> dict[str, Row]:
    """Return the index rows of a task whose steps wait behind gates. `Count` is the number of these steps."""
    order, gates = record.order, derive(record).gates.items()
    return {keys.gate_key(gate, at, order.task): {**_listed(order), "Count": n} for gate, (at, n) in gates}


# Columns

_TASK, _ORDER, _OPERATION = TypeAdapter(TaskRecord), TypeAdapter(Order), TypeAdapter(Operation)
_EARLIER, _SPECS = TypeAdapter(tuple[Operation, ...]), TypeAdapter(tuple[StepSpec, ...])
_CLOSED, _MESSAGE = TypeAdapter(core.ClosedEpoch), TypeAdapter(core.Message)

#: Fields with rows or columns of their own.
_NOT_IN_TASK = {"order", "steps", "closed", "outbox", "reason", "output"}
_NOT_IN_ORDER = {"specs", "payload"}
_NOT_IN_OPERATION = {"request", "result"}


def _json(adapter: TypeAdapter[Any], value: Any, without: set[str] | None = None) -> str:
    """Return the fields that differ from their defaults as JSON."""
    return adapter.dump_json(value, exclude=without, exclude_defaults=True).decode()


def split(name: str, text: str | None) -> dict[str, str]:
    """Return the columns of a text: `Name`, and for a long text also `Name_1`, `Name_2` and further ones."""
    if text is None:
        return {}
    if len(text) <= _MOST_CHARACTERS:
        return {name: text}
    starts = range(0, len(text), _MOST_CHARACTERS)
    parts = (text[start : start + _MOST_CHARACTERS] for start in starts)
    return {f"{name}_{number}" if number else name: part for number, part in enumerate(parts)}


def joined(row: Row, name: str) -> str | None:
    """Return a text from its columns, None if there is none. Raises `TypeError` for another value."""
    if name not in row:
        return None
    parts = [row[name]]
    while f"{name}_{len(parts)}" in row:
        parts.append(row[f"{name}_{len(parts)}"])
    return "".join(parts)


def _text(row: Row, name: str) -> str:
    """Return a required text from its columns. Raises `ValueError` and `TypeError`."""
    text = joined(row, name)
    if text is None:
        raise ValueError(f"the column {name} is missing")
    return text


def _task_row(stored: StoredTask) -> Row:
    record, columns = stored.record, derive(stored.record)
    return {
        "OrderID": record.order.task,
        "ProcessState": str(columns.state),
        "WaitingFor": str(columns.waiting_for),
        "FailureCount": record.failures,
        "Epoch": record.epoch,
        "Steps": len(record.steps),
        **split("Facts", _json(_TASK, record, _NOT_IN_TASK)),
        "Writes": " ".join(stored.writes),
        "Index": stored.index,
        **split("Reason", record.reason),
        **split("Output", record.output),
        **split("LockedBy", columns.locked_by),
        **split("Gates", "\n".join(_gate_rows(record)) or None),
        **_time("CompleteBy", columns.complete_by),
        **_time("DueAt", columns.due_at),
    }


def _time(name: str, time: datetime | None) -> dict[str, str]:
    if time is None:
        return {}
    text = time.astimezone(UTC).isoformat(timespec="microseconds").removesuffix("+00:00")
    return {name: f"{text}Z", f"{name}@odata.type": "Edm.DateTime"}


def _listed(order: Order) -> dict[str, Any]:
    """Return the columns of an index row that do not change."""
    return {
        "OrderID": order.task,
        "Workflow": order.workflow,
        "WorkflowVersion": order.version,
        "Submitter": order.submitter,
        **split("CorrelationID", order.correlation_id),
        **_time("SubmittedAt", order.submitted_at),
    }


def _index_row(stored: StoredTask) -> Row:
    """Return the row for lists. State and reason are those of the moment at which the row was moved.

    The row of a task in `Error` also has the cause, so a list by causes reads no task.
    """
    record = stored.record
    row = {**_listed(record.order), "ProcessState": str(derive(record).state)}
    if record.reason is not None:
        row["Reason"] = bounded(record.reason, 256)
    if record.error is not None:
        row["ErrorClass"] = error_class(record.error, record.order.task)
        row |= split("FailedStep", failed_step(record))
    return row


def _order_row(order: Order, search_keys: Iterable[str]) -> Row:
    return {
        **_listed(order),
        **split("Payload", order.payload),
        **split("Specs", _specs_text(order.specs)),
        **split("Facts", _json(_ORDER, order, _NOT_IN_ORDER)),
        **split("SearchKeys", "\n".join(search_keys) or None),
    }


@lru_cache(maxsize=256)
def _specs_text(specs: tuple[StepSpec, ...]) -> str:
    return _json(_SPECS, specs)


@lru_cache(maxsize=256)
def _specs_of(text: str) -> tuple[StepSpec, ...]:
    return _SPECS.validate_json(text)


@core.once
def _facts_of(step: StepRecord) -> Row:
    row: dict[str, Any] = {}
    for column, operation in (("Do", step.do), ("Undo", step.undo)):
        if operation is not NOT_STARTED:
            row |= split(column, _json(_OPERATION, operation, _NOT_IN_OPERATION))
            row |= split(f"{column}Request", operation.request)
            row |= split(f"{column}Result", operation.result)
    if step.earlier_dos:
        kept = (replace(do, request=None) if do.request == step.do.request else do for do in step.earlier_dos)
        text = _json(_EARLIER, tuple(kept))
        if len(text.encode("utf-16-le")) > 50 * _MOST_CHARACTERS:  # the rest of the row has other texts
            raise UnwritableRowsError(f"step {step.name}: its earlier requests take {len(text)} characters")
        row |= {**split("EarlierDos", text), "Undone": step.undone}
    return row | split("Event", step.event) | split("EventBy", step.event_by) | split("Note", step.note)


# Reading


def stored_task(rows: Iterable[Row], task: str) -> StoredTask | None:
    """Return a task from the rows of its record, None if there is no task row. Raises `CorruptRowError`."""
    by_key = {str(row["RowKey"]): row for row in rows}
    own = by_key.get(keys.task_key(task))
    key = keys.order_key(task)
    if own is None and "Specs" in by_key.get(key, ()):
        raise CorruptRowError(keys.task_key(task), "the row is missing")
    if own is None:
        return None
    order = decoded(key, lambda: _order_of(by_key[key], task))
    start, steps = f"{task}|step|", dict[str, StepRecord]()
    for key, row in by_key.items():
        if key.startswith(start):
            name = key.removeprefix(start)
            steps[name] = decoded(key, partial(_step_of, name, row, order))
    return decoded(keys.task_key(task), lambda: _stored(own, order, steps))


def message_of(row: Row) -> core.Message:
    """Return a message from its outbox row. Raises `CorruptRowError`."""
    return decoded(str(row.get("RowKey")), lambda: _MESSAGE.validate_json(_text(row, "Message")))


def closed_epoch(row: Row) -> core.ClosedEpoch:
    """Return a closed epoch from its row. Raises `CorruptRowError`."""
    return decoded(str(row.get("RowKey")), lambda: _CLOSED.validate_json(_text(row, "Facts")))


def index_keys_of(row: Row) -> list[str]:
    """Return the keys of the index rows that a task row names. Raises `CorruptRowError`."""
    return decoded(str(row.get("RowKey")), lambda: _index_keys(row))


def _index_keys(row: Row) -> list[str]:
    task = row["RowKey"].partition("|")[0]
    found = [_text(row, "Index"), *(joined(row, "Gates") or "").split()]
    if any(keys.task_in(key) != task for key in found):
        raise ValueError("it names an index row of another task")
    return found


def find_keys_of(row: Row, task: str) -> list[str]:
    """Return the keys of the rows of a task's search keys from its order row. Raises `CorruptRowError`."""
    submitted_at = decoded(str(row.get("RowKey")), lambda: datetime.fromisoformat(row["SubmittedAt"]))
    names = (joined(row, "SearchKeys") or "").split("\n")
    return [keys.find_key(name, submitted_at, task) for name in names if name]


def parent_of(row: Row) -> str | None:
    """Return the parent of a child task from its order row. Raises `CorruptRowError`."""
    facts: dict[str, str] = decoded(str(row.get("RowKey")), lambda: dict(from_json(_text(row, "Facts"))))
    return facts.get("parent")


def decoded[ResultT](row_key: str, decode: Callable[[], ResultT]) -> ResultT:
    """Decode a row, and name the row in the error. A part that is wrong may raise any error."""
    try:
        return decode()
    except Exception as error:
        first_line = str(error).partition("\n")[0] if isinstance(error, ValueError) else ""
        reason = bounded(f"{type(error).__name__} {first_line}".strip(), 200)
        raise CorruptRowError(row_key, reason) from error


def _order_of(row: Row, task: str) -> Order:
    facts = from_json(_text(row, "Facts"))
    specs, payload = _specs_of(_text(row, "Specs")), _text(row, "Payload")
    order = _ORDER.validate_python({**facts, "specs": specs, "payload": payload})
    if order.task != task:
        raise ValueError("it is of another task")
    return order


def _stored(row: Row, order: Order, steps: Mapping[str, StepRecord]) -> StoredTask:
    if row["Steps"] != len(steps):
        raise ValueError(f"{len(steps)} step rows instead of {row['Steps']}")
    facts = {**from_json(_text(row, "Facts")), "order": order, "steps": steps}
    texts = {"reason": joined(row, "Reason"), "output": joined(row, "Output")}
    record = _TASK.validate_python(facts | texts)
    writes = tuple(_text(row, "Writes").split())
    return StoredTask(record, str(row["odata.etag"]), writes, _index_keys(row)[0])


def _step_of(name: str, row: Row, order: Order) -> StepRecord:
    if name not in order.by_name:
        raise ValueError("the order has no such step")
    do, undo = (_operation_of(row, column) for column in ("Do", "Undo"))
    earlier = _EARLIER.validate_json(joined(row, "EarlierDos") or "[]")
    return StepRecord(
        name=name,
        do=do,
        undo=undo,
        event=joined(row, "Event"),
        event_by=joined(row, "EventBy"),
        note=joined(row, "Note"),
        earlier_dos=tuple(replace(each, request=each.request or do.request) for each in earlier),
        undone=int(row.get("Undone", 0)),
    )


def _operation_of(row: Row, column: str) -> Operation:
    if column not in row:
        return NOT_STARTED
    texts = {"request": joined(row, f"{column}Request"), "result": joined(row, f"{column}Result")}
    return _OPERATION.validate_python({**from_json(_text(row, column)), **texts})
