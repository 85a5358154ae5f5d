"""The adapters of the ports, each made only where the application's roles may have it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from functions.bus.messages import QueuedMessages
from functions.bus.queue_depths import PeekedLine, PeekedQueues
from functions.messages.queues import QUEUES
from functions.pattern.completion import rules_of
from functions.pattern.definition import Registry
from functions.pattern.messages import SUBMISSIONS_QUEUE
from functions.pattern.ports import Clock, Ports, Submissions
from functions.pattern.request_figures import StoreFigures
from functions.roles import Reach
from functions.store import conditional_rows as single_rows
from functions.store.agent_requests import AGENT_REQUESTS_TABLE, TableAgentRequests
from functions.store.announcing import Announcer
from functions.store.connect import TableStorage
from functions.store.indexes import TableIndexRows, TableTaskIndex
from functions.store.keys import ALERT_MINUTE, CIRCUITS_PARTITION
from functions.store.minute_counts import TableMinuteCounts
from functions.store.outbox import TableOutbox
from functions.store.rejected import REJECTED_TABLE, TableRejectedMessages
from functions.store.retention import TableTaskRetention
from functions.store.shards import Shards
from functions.store.state_store import TableStateStore
from functions.store.tables import CIRCUITS_TABLE, TASKS_TABLE
from functions.store.task_table import TaskTable
from functions.store.task_writer import TaskWriter
from functions.telemetry.changes import CountedChanges, MinuteCounter
from functions.telemetry.spans import SubmissionSpans


class NotOfThisRoleError(Exception):
    """A part of the application needs what its roles may not have (`functions/roles.py`): a defect."""


class Absent:
    """Stands for a port that the roles may not have."""

    def __init__(self, port: str) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        raise NotOfThisRoleError(f"no role of this application has the port '{self._port}' ({name})")


def _absent(port: str) -> Any:
    return Absent(port)


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The clients and values that adapters use: `storage` is the state store's, `agents` the Agents'."""

    clock: Clock
    new_id: Callable[[], str]
    registry: Registry
    shards: int
    storage: Callable[[], TableStorage]
    agents: TableStorage
    messages: QueuedMessages
    bus: Callable[[], Any]
    submissions: Submissions
    figures: StoreFigures


def ports_of(reach: Reach, outside: Outside) -> Ports:
    """Make the ports; what is not in reach is absent, and fails at its first use."""
    messages = outside.messages
    looks_at = tuple(queue for queue in QUEUES if reach.receives_from(queue))
    tables = {**_of_tasks(reach, outside), **_of_agents(reach, outside)}
    return Ports(
        clock=outside.clock,
        new_id=outside.new_id,
        rejected=_rejected(reach, outside),
        submissions=SubmissionSpans(outside.submissions),
        postbox=messages,
        announcements=messages,
        scheduler_requests=messages,
        agent_messages=messages,
        queues=PeekedQueues(outside.bus, looks_at) if looks_at else _absent("queues"),
        line=PeekedLine(outside.bus, SUBMISSIONS_QUEUE) if SUBMISSIONS_QUEUE in looks_at else _absent("line"),
        **tables,
    )


def _of_tasks(reach: Reach, outside: Outside) -> dict[str, Any]:
    if TASKS_TABLE not in reach.tables:
        names = ("store", "index", "index_rows", "outbox", "retention", "heartbeats", "times")
        return {port: Absent(port) for port in (*names, "alert_minute", "minute_counts")}
    clock, new_id, figures = outside.clock, outside.new_id, outside.figures
    shards, messages = Shards.of(outside.storage(), TASKS_TABLE, outside.shards), outside.messages
    shared = single_rows.ConditionalRows(shards.table, new_id=new_id, figures=figures)
    by_time = StoreFigures()  # of what is read and written every so often, whatever comes in: no order's cost
    timers_rows = single_rows.ConditionalRows(shards.table, new_id=new_id, figures=by_time)
    rows = TaskTable(shards, figures)
    writer = TaskWriter(rows, clock=clock, new_id=new_id, rules=rules_of(outside.registry))
    announcer = Announcer(writer, announcements=messages, requests=messages, clock=clock)
    minute_counts = TableMinuteCounts(shards.table, by_time)
    minutes = MinuteCounter(minute_counts, clock=clock, new_id=new_id)
    return {
        "store": TableStateStore(rows, writer, CountedChanges(announcer, minutes)),
        "index": TableTaskIndex(shards, figures),
        "index_rows": TableIndexRows(shards, figures),
        "outbox": TableOutbox(shards, figures),
        "retention": TableTaskRetention(shards, by_time),
        "heartbeats": single_rows.TableHeartbeats(timers_rows),
        "times": single_rows.TableTimes(shared),
        "alert_minute": single_rows.TableContent(timers_rows, ALERT_MINUTE),
        "minute_counts": minute_counts,
    }


def _of_agents(reach: Reach, outside: Outside) -> dict[str, Any]:
    found = {port: _absent(port) for port in ("breakers", "agent_requests")}
    if CIRCUITS_TABLE in reach.tables:
        table, new_id, figures = outside.agents.table(CIRCUITS_TABLE), outside.new_id, outside.figures
        circuits = single_rows.ConditionalRows(
            table, new_id=new_id, figures=figures, partition=CIRCUITS_PARTITION
        )
        found["breakers"] = single_rows.TableBreakerRows(circuits)
    if AGENT_REQUESTS_TABLE in reach.tables:
        begun = outside.agents.table(AGENT_REQUESTS_TABLE)
        found["agent_requests"] = TableAgentRequests(begun, clock=outside.clock)
    return found


def _rejected(reach: Reach, outside: Outside) -> Any:
    if REJECTED_TABLE not in reach.tables:
        return Absent("rejected")
    storage, clock, figures = outside.storage(), outside.clock, outside.figures
    table, groups = storage.table(REJECTED_TABLE), storage.groups(REJECTED_TABLE)
    return TableRejectedMessages(table, groups, clock=clock, figures=figures)
