"""The judge of a run: the checks of the simulation on each version of a task that was seen, and on the end.

It sees some versions of a task, and not each transition. So the checks of starts and outcomes, of gates and
of deadlines are the simulation's alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from azure.servicebus.aio import ServiceBusClient

from functions.core.derive import ProcessState, derive
from functions.core.record import Direction, TaskRecord
from functions.messaging.rejected_messages import RejectedMessage
from functions.storage.table_contract import CorruptRowError, TransientStorageError
from tests.chaos.callers import REPLY_QUEUE
from tests.chaos.evidence import Tables
from tests.chaos.plan import InjectedFault
from tests.simulation.record_checks import RecordChecks
from tests.simulation.services import Effect

#: Steps that only read, so that their service keeps no effect.
_READING = {"account"}
_AT_ONCE = 200
#: Seconds without a message after which the queue counts as empty.
_SILENCE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The facts of a finished run beside the records.

    `accepted` and `cancelled` are the orders whose submission or cancel was answered so, `rejections` the
    answers to the other submissions. `leftovers` are lines about unfinished work.
    """

    accepted: AbstractSet[str]
    rejections: Mapping[str, str]
    cancelled: AbstractSet[str]
    leftovers: Sequence[str]
    rejected: Sequence[RejectedMessage]
    fault_counts: Mapping[InjectedFault, int]
    seconds: float


class Judge:
    """Collects the versions of all tasks, and finds violations.

    `effects` are those of the remote services, `posted` the tasks with the kinds of their notices and alerts.
    """

    def __init__(
        self, effects: dict[str, Effect], posted: set[tuple[str, str | None]], *, most_recoveries: int
    ) -> None:
        self.violations: list[str] = []
        self.records: dict[str, TaskRecord] = {}
        self.posted = posted
        self.looks = 0
        self._effects = effects
        self._checks = RecordChecks(
            records=self.records,
            effects=effects,
            posted=posted,
            require=self._require,
            most_recoveries=most_recoveries,
        )

    @property
    def finished(self) -> int:
        """Return the number of tasks that were finished at the last look."""
        return sum(record.finished_at is not None for record in self.records.values())

    def _require(self, holds: object, text: str) -> None:
        if not holds and text not in self.violations:
            self.violations.append(text)

    async def look(self, tables: Tables) -> bool:
        """Examine all tasks once. Return False if the tables do not answer."""
        try:
            self.observe(await tables.records())
        except TransientStorageError:
            return False
        except CorruptRowError as error:
            self._require(False, str(error))
        self.looks += 1
        return True

    def observe(self, records: Mapping[str, TaskRecord]) -> None:
        """Check the versions that differ from the last ones."""
        for task, record in records.items():
            before = self.records.get(task)
            if before != record:
                self.records[task] = record
                self._checks.check_version(record)
                if before is not None:
                    self._checks.check_order(before, record)
        for task in self.records.keys() - records.keys():
            self._require(False, f"{task}: its record is gone")

    def judge(self, outcome: Outcome) -> Sequence[str]:
        """Check the end, and return all violations."""
        self._check_keys()
        self._checks.check_end(sorted(outcome.accepted & self.records.keys()))
        for task in sorted(outcome.accepted - self.records.keys()):
            self._require(False, f"{task}: lost")
        for task, answer in outcome.rejections.items():
            self._require(False, f"{task}: its submission was answered {answer}")
        for task in sorted(outcome.cancelled & self.records.keys()):
            state = derive(self.records[task]).state
            self._require(state is ProcessState.COMPENSATED, f"{task}: cancelled, and {state}")
        for line in outcome.leftovers:
            self._require(False, line)
        for message in outcome.rejected:
            text = f"a message of queue {message.queue} was rejected: {message.reason}"
            self._require(False, f"{message.task or 'no task'}: {text}")
        for fault in InjectedFault:
            self._require(outcome.fault_counts.get(fault), f"the fault '{fault}' had no effect")
        self._require(self.looks, "no task was examined while it ran")
        return self.violations

    def _check_keys(self) -> None:
        """Check that each effect key has the run id of its task, and add the effects of steps that read."""
        for task, record in self.records.items():
            for step in record.steps.keys() & _READING:
                self._effects[record.order.effect_key(step, Direction.DO)] = Effect("", done=1)
            for key in self._effects:
                is_own = key.startswith(f"{task}.{record.order.run_id}/")
                self._require(is_own or not key.startswith(f"{task}."), f"{key}: of another run of {task}")

    async def read_notices(self, connection: str) -> None:
        """Take all notices from the reply queue."""
        async with (
            ServiceBusClient.from_connection_string(connection) as client,
            client.get_queue_receiver(REPLY_QUEUE) as receiver,
        ):
            while messages := await receiver.receive_messages(_AT_ONCE, max_wait_time=_SILENCE):
                for message in messages:
                    notice: dict[str, Any] = json.loads(b"".join(message.body))
                    self.posted.add((notice["id"], notice["kind"]))
                    await receiver.complete_message(message)
