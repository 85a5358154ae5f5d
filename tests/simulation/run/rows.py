"""The rows of the state store as they lie there, read without any code of the application."""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from typing import Any

from functions.store.keys import ALERT_MINUTE, SHARDS_PARTITION
from tests.simulation.checks.rows import TaskRows, tasks_of
from tests.simulation.tables.service import TableService

#: How the ids of tasks begin whose rows nobody can read.
BAD = "bad"

_FINAL = frozenset({"Processed", "Compensated", "Error"})


def plain(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Give a row's properties, bytes as bytes; times stay texts."""
    return {
        name: b64decode(value) if properties.get(f"{name}@odata.type") == "Edm.Binary" else value
        for name, value in properties.items()
        if "@" not in name
    }


def task_rows(tables: TableService) -> dict[str, TaskRows]:
    """Read all tasks."""
    found: dict[str, TaskRows] = {}
    for partition in tables.tables["Tasks"].partitions.values():
        found |= tasks_of(plain(partition.rows[key].properties) for key in partition.keys)
    return {task: rows for task, rows in found.items() if rows.task is not None and not task.startswith(BAD)}


def parked_tasks(tables: TableService, waiting_for: str) -> list[str]:
    """Name the tasks that are parked so."""
    return [
        key.partition("|")[0]
        for partition in tables.tables["Tasks"].partitions.values()
        for key in partition.keys
        if partition.rows[key].properties.get("ParkedFor") == waiting_for and key.endswith("|task")
    ]


def alerts_waiting(tables: TableService) -> int:
    """Count the alerts that wait for their summary."""
    row = tables.tables["Tasks"].partitions[SHARDS_PARTITION].rows.get(ALERT_MINUTE)
    return 0 if row is None else sum(json.loads(plain(row.properties)["Content"])["waiting"].values())


def rows_of_table(tables: TableService, table: str) -> Iterator[dict[str, Any]]:
    """Read all rows of a table."""
    for partition in tables.tables[table].partitions.values():
        yield from (plain(partition.rows[key].properties) for key in partition.keys)


def births(tables: TableService) -> dict[str, str]:
    """Read the birth of each task."""
    return {task: order["Birth"] for task, order in _orders(tables)}


def versions(tables: TableService) -> dict[str, int]:
    """Read which version of its workflow each task has."""
    return {task: order["WorkflowVersion"] for task, order in _orders(tables)}


def _orders(tables: TableService) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for partition in tables.tables["Tasks"].partitions.values():
        for key in partition.keys:
            if key.endswith("|order"):
                yield key.partition("|")[0], partition.rows[key].properties


def unfinished(tables: TableService) -> Iterator[str]:
    """Tell what is not at rest: tasks under way, and announcements that are not sent."""
    for name, partition in tables.tables["Tasks"].partitions.items():
        if name.startswith("!"):
            continue
        for key in partition.keys:
            if key.endswith("|task") and not key.startswith(BAD):
                state = partition.rows[key].properties["ProcessState"]
                if state not in _FINAL:
                    yield f"{key} is {state}"
            elif key.startswith("!send|"):
                yield key
