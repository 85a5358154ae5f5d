"""The tasks of one hour: orders paid, deliveries completed, undone, recovered, stuck, and an open gate."""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from functions.core.definition.workflow_definition import Workflow
from functions.core.gate_rules import Circuit, Gate, Hold
from functions.operators.minute_rows import write_minute
from functions.storage.gates import Gates
from functions.storage.table_contract import RefusedChanges, RowChange, Table
from functions.telemetry.task_counts import TaskCounter
from tests.e2e.console.story import Story
from tests.e2e.console.workflows import BOOKING, GONE, NEWEST, NEWEST_UNDOING, OLDER, ORDERS

#: The delivery that the screenshot of a task shows.
STUCK = "delivery-7f3a9c41"
#: The booking that the screenshot of a question shows.
IN_QUESTION = "booking-51d0a9e2"

_PACKED = (
    "begun account 0.2; done account 0.4; begun package 0.5; begun transport 0.5;"
    " done transport 0.8; done package 1.1"
)
_DRONE = f"{_PACKED}; begun drone 1.2"
_RECOVERED = f"{_DRONE}; overdue 26.7"
_VERSION_GONE = f"{_PACKED}; suspended 3.4"
_BEGUN = "begun payment 0.2"


@dataclass(frozen=True, slots=True)
class Scene:
    """Tasks with one script: the methods of `Story` in turn, each with its arguments.

    Each task begins at a time that is drawn: `ago` seconds before now. A name without a number gets one.
    """

    tasks: int
    workflow: Workflow[Any]
    name: str
    ago: tuple[float, float]
    script: str

    def played(self, now: datetime, chance: random.Random) -> Story:
        """Make one of the tasks."""
        at = now - timedelta(seconds=chance.uniform(*self.ago))
        task = self.name if "-" in self.name else f"{self.name}-{chance.getrandbits(32):08x}"
        story = Story.begin(self.workflow, task, at, reply_to="notices-demo")
        for event in self.script.split("; "):
            method, *words = shlex.split(event)
            arguments = [float(word) if word[0].isdigit() else word for word in words if "=" not in word]
            given = dict(word.split("=") for word in words if "=" in word)
            getattr(story, method)(*arguments, **{name: float(value) for name, value in given.items()})
        return story


_REFUSED = "'drone answered 422'"
_FLOWN_AGAIN = "begun drone 27.6; done drone 29.1; begun delivery 29.2; done delivery 29.7"
_UNDONE = "begun drone 2.5; done drone 3.1; begun package 3.5; done package 4.1"
_STUCK = (
    f"{_RECOVERED}; begun drone 27.2; refused drone 30.9 {_REFUSED};"
    f" resubmitted 118 'larger drone available again, ticket 4711'; begun drone 118.6;"
    f" refused drone 127.3 {_REFUSED}"
)
_EXHAUSTED = "begun drone 27.6; overdue 52.3"
_IN_QUESTION = (
    "begun drone 0.2; done drone 1.4; begun account 1.5 within=5; unknown account 6.5 'account: TimeoutError'"
)
_CAST = (
    Scene(40, ORDERS, "order", (30, 3_540), f"{_BEGUN}; done payment 1.2"),
    Scene(6, ORDERS, "order", (300, 3_000), f"{_BEGUN}; refused payment 1.1 'payment answered 422'"),
    Scene(3, NEWEST, "delivery", (600, 3_000), f"{_RECOVERED}; {_FLOWN_AGAIN}"),
    Scene(7, NEWEST_UNDOING, "delivery", (60, 3_400), f"{_DRONE}; refused drone 2 {_REFUSED}; {_UNDONE}"),
    Scene(1, NEWEST, STUCK, (240, 240), _STUCK),
    Scene(2, NEWEST, "delivery", (300, 3_000), f"{_RECOVERED}; {_EXHAUSTED}"),
    Scene(5, NEWEST, "delivery", (20, 200), f"{_PACKED}; deferred drone 1.2"),
    Scene(1, OLDER, "delivery", (4, 8), f"{_PACKED}; begun drone 1.2 within=600"),
    Scene(3, GONE, "delivery", (700, 900), _VERSION_GONE),
    Scene(1, BOOKING, IN_QUESTION, (1_260, 1_260), _IN_QUESTION),
    Scene(4, ORDERS, "order", (2, 9), f"{_BEGUN} within=600"),
)
#: The probabilities with which a task of the last hour is counted.
_CHANCES = {
    TaskCounter.ACCEPTED: 1.0,
    TaskCounter.PROCESSED: 0.9,
    TaskCounter.COMPENSATED: 0.07,
    TaskCounter.ERROR: 0.08,
    TaskCounter.RECOVERED: 0.05,
}


async def write_hour(table: Table, shards: int, now: datetime) -> None:
    """Write the tasks of the hour before `now` in their final states, and the counts of its minutes."""
    chance = random.Random(4711)  # noqa: S311 - for screenshots
    await _write_gates(table, now)
    for scene in _CAST:
        for _ in range(scene.tasks):
            await scene.played(now, chance).write(table, shards)
    for ago in range(1, 61):
        tasks = range(chance.randint(0, 4))
        counts = {each: sum(chance.random() < most for _ in tasks) for each, most in _CHANCES.items()}
        await write_minute(
            table, now.replace(second=0, microsecond=0) - timedelta(minutes=ago), "all", counts
        )


async def _write_gates(table: Table, now: datetime) -> None:
    """Write an open gate, whose next probe is later than the screenshots, and a held one."""
    since = now - timedelta(minutes=3, seconds=20)
    hold = Hold(start=now - timedelta(minutes=12), who="operator", reason="the carrier moves its office")
    gates = (
        Gate(
            name="drone",
            circuit=Circuit.OPEN,
            changed_at=since,
            openings=3,
            away_from=since,
            next_at=now + timedelta(minutes=9),
        ),
        Gate(name="transport", holds=(hold,)),
        Gate(name="package", calls_at_once=4),
    )
    made = TypeAdapter(Gate)
    changes = [
        RowChange(
            "insert",
            gate.name,
            {"Circuit": str(gate.circuit), "Gate": made.dump_json(gate, exclude_defaults=True).decode()},
        )
        for gate in gates
    ]
    answer = await table.send(Gates.partition, changes)
    assert not isinstance(answer, RefusedChanges), answer
