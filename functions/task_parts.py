"""The parts that read and change tasks, joined for one process."""

from __future__ import annotations

from collections.abc import Mapping

from functions.agents.gate_releases import ReleasingGates
from functions.core.record import RuleSettings
from functions.core.workflow_definition import WorkflowRegistry
from functions.host_functions import start_run
from functions.machine import new_id, utc_now
from functions.messaging.announcer import Announcer
from functions.messaging.senders import MessageSender
from functions.operators.minute_rows import MinuteRows
from functions.scheduler.receivers import Receivers
from functions.storage.table_contract import Table
from functions.storage.task_storage import TaskStorage
from functions.telemetry.task_counts import MinuteCounter, TaskCounts


class TaskParts:
    """The parts that read and change tasks. Runs are started directly where a Durable client is bound.

    `table` has the rows of `shards`. `finders` are the gates of the Agents that can look up effects.
    `calls_at_once` limits the calls of one instance by gate.
    """

    def __init__(
        self,
        table: Table,
        *,
        shards: int,
        rules: RuleSettings,
        registry: WorkflowRegistry,
        sender: MessageSender,
        finders: frozenset[str],
        calls_at_once: Mapping[str, int],
    ) -> None:
        self.rules = rules
        counts = TaskCounts(MinuteCounter(MinuteRows(table).write, now=utc_now, new_id=new_id))
        self.announcer = Announcer(send=sender.send, start_run=start_run, counts=counts)
        announce = self.announcer.announce
        self.storage = TaskStorage(
            table, shards=shards, settings=rules, now=utc_now, new_id=new_id, announce=announce
        )
        self.gates = ReleasingGates(
            self.storage,
            settings=rules,
            now=utc_now,
            schedule_release=self.announcer.request_release,
            calls_at_once=calls_at_once,
        )
        self.receivers = Receivers(
            storage=self.storage,
            registry=registry,
            announcer=self.announcer,
            gates=self.gates,
            settings=rules,
            now=utc_now,
            start_run=start_run,
            finders=finders,
        )
