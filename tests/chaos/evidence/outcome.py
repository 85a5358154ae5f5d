"""The outcome of a run: the evidence that the simulation's checks judge, and figures of the run itself.

Judged are the invariants in `JUDGED`. The other checks need every version of a row, or the rows at the moment
of a call, which only the simulation has: the order of calls (I6), calls and outcomes after complete-by (I8),
each transaction's rows (I10), drawn ends (I16), limits (I17). For the same reason the parts of I3, I4 and I5
about each change of a step's row are the simulation's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from azure.servicebus.aio import ServiceBusClient
from pydantic_core import to_json

from tests.chaos.callers import REPLY_QUEUE
from tests.chaos.plan import InjectedFault, Plan
from tests.simulation.checks.every import violations
from tests.simulation.checks.evidence import Evidence
from tests.simulation.checks.violations import Invariant, Violation

JUDGED = frozenset(
    {
        Invariant.NO_LOSS,
        Invariant.ONE_EFFECT,
        Invariant.NET_EFFECT,
        Invariant.MUTUAL_EXCLUSION,
        Invariant.MONOTONE,
        Invariant.TERMINATION,
        Invariant.FAILURE_COUNT,
        Invariant.STATUS_AGREES,
        Invariant.ALERTS,
        Invariant.CANCELLED,
        Invariant.NOT_VACUOUS,
    }
)
_AT_ONCE = 200
#: Seconds without a message after which the queue counts as empty.
_SILENCE = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChaosOutcome:
    """The evidence, the plan, the effects of each fault, the looks at the tables, the seconds to settle."""

    evidence: Evidence
    plan: Plan
    fault_counts: Mapping[InjectedFault, int]
    looks: int
    settled: float

    def violations(self) -> list[Violation]:
        """Return all violations of the judged invariants."""
        return [*violations(self.evidence), *self._dead_letters(), *self._vacuous()]

    def keep(self, found: Sequence[Violation], folder: Path) -> None:
        """Write the evidence and the violations to `evidence.json` in a folder."""
        kept = {"violations": found, "plan": self.plan, "evidence": self.evidence}
        content = to_json(kept, indent=1, fallback=repr, bytes_mode="base64")
        (folder / "evidence.json").write_bytes(content)

    def _dead_letters(self) -> Iterator[Violation]:
        """Find dead letters: no caller sends unusable messages, and no outage lasts long enough for one."""
        for row in self.evidence.rejected:
            what = f"a message of queue {row['Queue']} was rejected: {row['Reason']}"
            yield Violation(Invariant.NO_LOSS, row.get("Task") or None, what)

    def _vacuous(self) -> Iterator[Violation]:
        for fault in InjectedFault:
            if not self.fault_counts.get(fault):
                yield Violation(Invariant.NOT_VACUOUS, None, f"'{fault}' had no effect")
        if not self.looks:
            yield Violation(Invariant.NOT_VACUOUS, None, "no task was observed while it ran")


async def read_notices(connection: str) -> list[Mapping[str, Any]]:
    """Take all notices off the reply queue."""
    notices = list[Mapping[str, Any]]()
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_receiver(REPLY_QUEUE) as receiver,
    ):
        while messages := await receiver.receive_messages(_AT_ONCE, max_wait_time=_SILENCE):
            for message in messages:
                notices.append(json.loads(b"".join(message.body)))
                await receiver.complete_message(message)
    return notices
