"""The tasks of one hour: orders paid, deliveries completed, undone, recovered, stuck, and an open gate."""

from __future__ import annotations

import asyncio
import random
import shlex
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import TypeAdapter

from functions.agents.gate_releases import ReleasingGates
from functions.core.gate_rules import Circuit, Gate, Hold
from functions.core.workflow_definition import Workflow
from functions.operators.minute_rows import write_minute
from functions.storage.table_contract import RefusedChanges, RowChange, Table
from functions.telemetry.task_counts import TaskCounter
from tests.e2e.console.story import Story
from tests.e2e.console.workflows import BOOKING, GONE, NEWEST, NEWEST_UNDOING, OLDER, ORDERS

#: The delivery that the screenshot of a task shows.
STUCK = "delivery-7f3a9c41"
#: The booking that the screenshot of a question shows.
IN_QUESTION = "booking-51d0a9e2"

_TASKS_AT_ONCE = 8
_NOTICES = "notices-demo"
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
    The events of `later` are delayed by seconds that are drawn from the lognormal distribution `took`.
    """

    tasks: int
    workflow: Workflow[Any]
    name: str
    ago: tuple[float, float]
    script: str
    later: str = ""
    took: tuple[float, float] = (0, 0)
    reply_to: str | None = None

    def played(self, now: datetime, chance: random.Random) -> Story:
        """Make one of the tasks."""
        at = now - timedelta(seconds=chance.uniform(*self.ago))
        task = self.name if "-" in self.name else f"{self.name}-{chance.getrandbits(32):08x}"
        story = Story.begin(self.workflow, task, at, reply_to=self.reply_to)
        _play(story, self.script, 0)
        if self.later:
            _play(story, self.later, chance.lognormvariate(*self.took))
        return story


def _play(story: Story, script: str, delay: float) -> None:
    for event in script.split("; "):
        method, *words = shlex.split(event)
        given = {
            name: float(value) for name, _, value in (word.partition("=") for word in words if "=" in word)
        }
        arguments = [float(word) + delay if word[0].isdigit() else word for word in words if "=" not in word]
        getattr(story, method)(*arguments, **given)


_REFUSED = "'drone answered 422'"
_FLOWN = "done drone 1.2; begun delivery 1.3; done delivery 1.8"
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
    Scene(64, ORDERS, "order", (30, 3_540), _BEGUN, "done payment 0.3", (0, 0.6)),
    Scene(6, ORDERS, "order", (300, 3_000), f"{_BEGUN}; refused payment 1.1 'payment answered 422'"),
    Scene(26, NEWEST, "delivery", (30, 3_500), _DRONE, _FLOWN, (0.3, 0.5)),
    Scene(3, NEWEST, "delivery", (600, 3_000), f"{_RECOVERED}; {_FLOWN_AGAIN}"),
    Scene(7, NEWEST_UNDOING, "delivery", (60, 3_400), f"{_DRONE}; refused drone 2 {_REFUSED}; {_UNDONE}"),
    Scene(1, NEWEST, STUCK, (240, 240), _STUCK, reply_to=_NOTICES),
    Scene(2, NEWEST, "delivery", (300, 3_000), f"{_RECOVERED}; {_EXHAUSTED}"),
    Scene(5, NEWEST, "delivery", (20, 200), f"{_PACKED}; deferred drone 1.2"),
    Scene(1, OLDER, "delivery", (4, 8), f"{_PACKED}; begun drone 1.2 within=600"),
    Scene(3, GONE, "delivery", (700, 900), _VERSION_GONE),
    Scene(1, BOOKING, IN_QUESTION, (1_260, 1_260), _IN_QUESTION, reply_to=_NOTICES),
    Scene(4, ORDERS, "order", (2, 9), f"{_BEGUN} within=600"),
)


async def write_hour(table: Table, shards: int, now: datetime) -> None:
    """Write the tasks of the hour before `now`, each once, in its final state, and what is counted."""
    chance = random.Random(4711)  # noqa: S311 - for screenshots
    slots = asyncio.Semaphore(_TASKS_AT_ONCE)

    async def write(story: Story) -> None:
        async with slots:
            await story.write(table, shards)

    scenes = [scene for scene in _CAST for _ in range(scene.tasks)]
    stories = [scene.played(now, random.Random(chance.random())) for scene in scenes]  # noqa: S311 - as above
    await _write_gates(table, now)
    await asyncio.gather(*map(write, stories))
    counts: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
    for at, counter in (each for story in stories for each in story.counted):
        counts[at.replace(second=0, microsecond=0)][counter] += 1
    await asyncio.gather(*(write_minute(table, minute, "all", each) for minute, each in counts.items()))


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
    answer = await table.send(ReleasingGates.partition, changes)
    assert not isinstance(answer, RefusedChanges), answer
