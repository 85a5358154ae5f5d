"""The tasks of one hour: orders paid, deliveries completed, undone, recovered, stuck, and an open circuit."""

from __future__ import annotations

import asyncio
import random
import shlex
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from azure.data.tables.aio import TableClient

from functions.pattern.breaker import BreakerRecord, BreakerState
from functions.pattern.definition import Workflow
from functions.pattern.occurrences import TaskCounter
from functions.pattern.request_figures import StoreFigures
from functions.store.conditional_rows import ConditionalRows, TableBreakerRows
from functions.store.connect import TableStorage
from functions.store.keys import CIRCUITS_PARTITION
from functions.store.minute_counts import TableMinuteCounts
from functions.store.tables import CIRCUITS_TABLE, TASKS_TABLE
from tests.e2e.console.story import Story
from tests.e2e.console.workflows import BOOKING, GONE, NEWEST, NEWEST_UNDOING, OLDER
from tests.fakes.orders import ORDERS

#: The delivery that the screenshot of a task shows.
STUCK = "delivery-7f3a9c41"
#: The booking that the screenshot of a question shows.
IN_QUESTION = "booking-51d0a9e2"
#: One that waits for its version.
PARKED = "delivery-0c44be17"

_TASKS_AT_ONCE = 8
_NOTICES = "notices-demo"
_PACKED = (
    "claimed 0.1; begun account 0.2; done account 0.4; begun package 0.5; begun transport 0.5;"
    " done transport 0.8; done package 1.1"
)
_DRONE = f"{_PACKED}; begun drone 1.2"
_RECOVERED = f"{_DRONE}; recovered 27"
_VERSION_GONE = f"{_PACKED}; recovered 70; claimed 70.3; parked 70.4"
_BEGUN = "claimed 0.1; begun payment 0.2"
_KEYWORDS: dict[str, Callable[[str], object]] = {"within": float, "unknown": bool}


@dataclass(frozen=True, slots=True)
class Scene:
    """Tasks with one script: the methods of `Story` in turn, each with its arguments.

    Each task begins at a time that is drawn: `ago` seconds before now. A name without a number gets one.
    The events of `later` are delayed by seconds that are drawn from the lognormal distribution `took`.
    """

    tasks: int
    workflow: Workflow
    name: str
    ago: tuple[float, float]
    script: str
    later: str = ""
    took: tuple[float, float] = (0, 0)
    reply_to: str | None = None

    async def played(self, now: datetime, chance: random.Random) -> Story:
        """Make one of the tasks."""
        at = now - timedelta(seconds=chance.uniform(*self.ago))
        task = self.name if "-" in self.name else f"{self.name}-{chance.getrandbits(32):08x}"
        story = Story.begin(self.workflow, task, at, reply_to=self.reply_to)
        await _play(story, self.script, 0)
        if self.later:
            await _play(story, self.later, chance.lognormvariate(*self.took))
        return story


async def _play(story: Story, script: str, delay: float) -> None:
    for event in script.split("; "):
        method, *words = shlex.split(event)
        given = dict(word.split("=") for word in words if "=" in word)
        keywords = {name: _KEYWORDS[name](value) for name, value in given.items()}
        arguments = [float(word) + delay if word[0].isdigit() else word for word in words if "=" not in word]
        await getattr(story, method)(*arguments, **keywords)


_REFUSED = "'drone answered 422'"
_FLOWN = "done drone 1.2; begun delivery 1.3; done delivery 1.8"
_FLOWN_AGAIN = "claimed 27.4; begun drone 27.6; done drone 29.1; begun delivery 29.2; done delivery 29.7"
_UNDONE = "claimed 2.3; begun drone 2.5; done drone 3.1; begun package 3.5; done package 4.1"
_STUCK = (
    f"{_DRONE}; recovered 26.7; claimed 27; begun drone 27.2; refused drone 30.9 {_REFUSED};"
    " resubmitted 118 'larger drone available again, ticket 4711'; claimed 118.4; begun drone 118.6;"
    f" refused drone 127.3 {_REFUSED}"
)
_GIVEN_UP = "claimed 27.4; begun drone 27.6; given_up 52.3 'drone: still overdue after 1 recovery'"
_IN_QUESTION = (
    "claimed 0.1; begun drone 0.2; done drone 1.4; begun account 1.5 within=5;"
    " given_up 7.1 'account: its outcome is unknown, and it must not run twice' unknown=yes"
)
_REFUSED_ORDER = f"{_BEGUN} within=60; refused payment 1.1 'payment answered 422'"
_CAST = (
    Scene(64, ORDERS, "order", (30, 3_540), f"{_BEGUN} within=60", "done payment 0.3", (0, 0.6)),
    Scene(6, ORDERS, "order", (300, 3_000), _REFUSED_ORDER, reply_to=_NOTICES),
    Scene(26, NEWEST, "delivery", (30, 3_500), _DRONE, _FLOWN, (0.3, 0.5)),
    Scene(3, NEWEST, "delivery", (600, 3_000), f"{_RECOVERED}; {_FLOWN_AGAIN}"),
    Scene(7, NEWEST_UNDOING, "delivery", (60, 3_400), f"{_DRONE}; refused drone 2 {_REFUSED}; {_UNDONE}"),
    Scene(1, NEWEST, STUCK, (240, 240), _STUCK, reply_to=_NOTICES),
    Scene(2, NEWEST, "delivery", (300, 3_000), f"{_RECOVERED}; {_GIVEN_UP}"),
    Scene(2, NEWEST, "delivery", (28, 32), _RECOVERED),
    Scene(1, OLDER, "delivery", (4, 8), _DRONE),
    Scene(2, GONE, "delivery", (700, 900), _VERSION_GONE),
    Scene(1, GONE, PARKED, (812, 812), _VERSION_GONE),
    Scene(1, BOOKING, IN_QUESTION, (1_260, 1_260), _IN_QUESTION, reply_to=_NOTICES),
    Scene(4, ORDERS, "order", (2, 9), f"{_BEGUN} within=600"),
)


async def write_hour(storage: TableStorage, shards: int, now: datetime) -> None:
    """Write the tasks of the hour before `now`, each once, in its final state, and what is counted."""
    table = storage.table(TASKS_TABLE)
    chance = random.Random(4711)  # noqa: S311 - for screenshots
    slots = asyncio.Semaphore(_TASKS_AT_ONCE)

    async def played(scene: Scene, seed: float) -> Story:
        story = await scene.played(now, random.Random(seed))  # noqa: S311 - as above
        async with slots:
            await story.write(table, shards)
        return story

    scenes = [scene for scene in _CAST for _ in range(scene.tasks)]
    stories = await asyncio.gather(*(played(scene, chance.random()) for scene in scenes))
    await _minute_counts(table, stories)
    await _breakers(storage.table(CIRCUITS_TABLE), now)


async def _minute_counts(table: TableClient, stories: list[Story]) -> None:
    counts: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
    for at, occurred in (each for story in stories for each in story.occurred):
        counts[at.replace(second=0, microsecond=0)].update(occurred.counters)
    rows = TableMinuteCounts(table, StoreFigures())
    await asyncio.gather(*(rows.write(minute, "all", each) for minute, each in counts.items()))


async def _breakers(table: TableClient, now: datetime) -> None:
    rows = TableBreakerRows(
        ConditionalRows(
            table,
            new_id=lambda: uuid.uuid4().hex,
            figures=StoreFigures(),
            partition=CIRCUITS_PARTITION,
        )
    )
    drone = BreakerRecord(
        service="drone",
        state=BreakerState.OPEN,
        since=now - timedelta(seconds=49),
        failures=6,
        probe_at=now + timedelta(minutes=1),
        last_error="drone answered 503",
    )
    payment = BreakerRecord(service="payment", state=BreakerState.CLOSED, since=now - timedelta(minutes=38))
    for record in (drone, payment):
        await rows.swap(record, None)
