"""The tasks of one hour: orders paid, deliveries completed, undone, recovered, stuck, and an open circuit."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
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
_NO_DRONE = "drone answered 422"


@dataclass(frozen=True, slots=True)
class Stage:
    """Collects the tasks of the hour before `now`."""

    now: datetime
    chance: random.Random
    stories: list[Story] = field(default_factory=list)

    def begin(self, workflow: Workflow, name: str, ago: float, *, reply_to: str | None = None) -> Story:
        """Submit an order, `ago` seconds before `now`; a name without a number gets one."""
        task = name if "-" in name else f"{name}-{self.chance.getrandbits(32):08x}"
        at = self.now - timedelta(seconds=ago)
        self.stories.append(Story.begin(workflow, task, at, reply_to=reply_to))
        return self.stories[-1]


type Scene = Callable[[Stage, random.Random], Awaitable[None]]


async def order_paid(stage: Stage, chance: random.Random) -> None:
    """Add an order that is paid, as most are."""
    story = stage.begin(ORDERS, "order", chance.uniform(30, 3_540))
    took = chance.lognormvariate(0, 0.6)
    await story.claimed(0.1)
    await story.begun("payment", 0.2, within=60)
    await story.done("payment", 0.3 + took)


async def order_refused(stage: Stage, chance: random.Random) -> None:
    """Its payment is refused permanently, and it is held for an operator."""
    story = stage.begin(ORDERS, "order", chance.uniform(300, 3_000), reply_to="notices-demo")
    await story.claimed(0.1)
    await story.begun("payment", 0.2, within=60)
    await story.refused("payment", 1.1, "payment answered 422")


async def delivery_made(stage: Stage, chance: random.Random) -> None:
    """Five services, two of them in parallel."""
    story = stage.begin(NEWEST, "delivery", chance.uniform(30, 3_500))
    await _packed(story)
    await _flown(story, 1.2, chance.lognormvariate(0.3, 0.5))


async def delivery_recovered(stage: Stage, chance: random.Random) -> None:
    """Lose the drone service's response; the Supervisor recovers the task."""
    story = stage.begin(NEWEST, "delivery", chance.uniform(600, 3_000))
    await _packed(story)
    await story.begun("drone", 1.2)
    await story.recovered(27)
    await story.claimed(27.4)
    await _flown(story, 27.6, 1.5)


async def delivery_undone(stage: Stage, chance: random.Random) -> None:
    """No drone is available, and the completed steps are undone."""
    story = stage.begin(NEWEST_UNDOING, "delivery", chance.uniform(60, 3_400))
    await _packed(story)
    await story.begun("drone", 1.2)
    await story.refused("drone", 2, _NO_DRONE)
    await story.claimed(2.3)
    for number, step in enumerate(("drone", "package")):
        await story.begun(step, 2.5 + number)
        await story.done(step, 3.1 + number)


async def delivery_stuck(stage: Stage, _chance: random.Random) -> None:
    """Recovered once, refused, resubmitted, refused again: it is held for an operator."""
    story = stage.begin(NEWEST, STUCK, 240, reply_to="notices-demo")
    await _packed(story)
    await story.begun("drone", 1.2)
    await story.recovered(26.7)
    await story.claimed(27)
    await story.begun("drone", 27.2)
    await story.refused("drone", 30.9, _NO_DRONE)
    await story.resubmitted(118, "larger drone available again, ticket 4711")
    await story.claimed(118.4)
    await story.begun("drone", 118.6)
    await story.refused("drone", 127.3, _NO_DRONE)


async def delivery_given_up(stage: Stage, chance: random.Random) -> None:
    """Get no response from the drone service, until all recoveries are used up."""
    story = stage.begin(NEWEST, "delivery", chance.uniform(300, 3_000))
    await _packed(story)
    await story.begun("drone", 1.2)
    await story.recovered(27)
    await story.claimed(27.4)
    await story.begun("drone", 27.6)
    await story.given_up(52.3, "drone: still overdue after 1 recovery")


async def delivery_in_recovery(stage: Stage, chance: random.Random) -> None:
    """Its Scheduler was lost, and the Supervisor has recovered the task."""
    story = stage.begin(NEWEST, "delivery", chance.uniform(28, 32))
    await _packed(story)
    await story.begun("drone", 1.2)
    await story.recovered(27)


async def delivery_of_older_version(stage: Stage, chance: random.Random) -> None:
    """Be under way in the version with which it began."""
    story = stage.begin(OLDER, "delivery", chance.uniform(4, 8))
    await _packed(story)
    await story.begun("drone", 1.2)


async def delivery_parked(stage: Stage, chance: random.Random) -> None:
    """Drop a version that the task still needs."""
    story = stage.begin(GONE, "delivery", chance.uniform(700, 900))
    await _park(story)


async def known_delivery_parked(stage: Stage, _chance: random.Random) -> None:
    """Do the same, under a name that is known."""
    await _park(stage.begin(GONE, PARKED, 812))


async def booking_in_question(stage: Stage, _chance: random.Random) -> None:
    """Nobody knows whether the account was charged, and it must not be charged twice."""
    story = stage.begin(BOOKING, IN_QUESTION, 1_260, reply_to="notices-demo")
    await story.claimed(0.1)
    await story.begun("drone", 0.2)
    await story.done("drone", 1.4)
    await story.begun("account", 1.5, within=5)
    await story.given_up(7.1, "account: its outcome is unknown, and it must not run twice", unknown=True)


async def order_under_way(stage: Stage, chance: random.Random) -> None:
    """Its payment is in progress."""
    story = stage.begin(ORDERS, "order", chance.uniform(2, 9))
    await story.claimed(0.1)
    await story.begun("payment", 0.2, within=600)


_CAST: tuple[tuple[Scene, int], ...] = (
    (order_paid, 64),
    (order_refused, 6),
    (delivery_made, 26),
    (delivery_recovered, 3),
    (delivery_undone, 7),
    (delivery_stuck, 1),
    (delivery_given_up, 2),
    (delivery_in_recovery, 2),
    (delivery_of_older_version, 1),
    (delivery_parked, 2),
    (known_delivery_parked, 1),
    (booking_in_question, 1),
    (order_under_way, 4),
)


async def write_hour(storage: TableStorage, shards: int, now: datetime) -> None:
    """Write the tasks of the hour before `now`, each once, in its final state, and what is counted."""
    table = storage.table(TASKS_TABLE)
    chance = random.Random(4711)  # noqa: S311 - for screenshots
    slots = asyncio.Semaphore(_TASKS_AT_ONCE)

    async def played(scene: Scene, seed: float) -> list[Story]:
        own = random.Random(seed)  # noqa: S311 - as above
        stage = Stage(now, own)
        await scene(stage, own)
        async with slots:
            for story in stage.stories:
                await story.write(table, shards)
        return stage.stories

    scenes = [scene for scene, times in _CAST for _ in range(times)]
    stories = await asyncio.gather(*(played(scene, chance.random()) for scene in scenes))
    await _minute_counts(table, [story for some in stories for story in some])
    await _breakers(storage.table(CIRCUITS_TABLE), now)


async def _minute_counts(table: TableClient, stories: list[Story]) -> None:
    counts: defaultdict[datetime, Counter[TaskCounter]] = defaultdict(Counter)
    for at, occurred in (each for story in stories for each in story.occurred):
        counts[at.replace(second=0, microsecond=0)].update(occurred.counters)
    rows = TableMinuteCounts(table, StoreFigures())
    await asyncio.gather(*(rows.write(minute, "all", each) for minute, each in counts.items()))


async def _packed(story: Story) -> None:
    await story.claimed(0.1)
    await story.begun("account", 0.2)
    await story.done("account", 0.4)
    await story.begun("package", 0.5)
    await story.begun("transport", 0.5)
    await story.done("transport", 0.8)
    await story.done("package", 1.1)


async def _park(story: Story) -> None:
    await _packed(story)
    await story.recovered(70)
    await story.claimed(70.3)
    await story.parked(70.4)


async def _flown(story: Story, at: float, took: float) -> None:
    await story.begun("drone", at)
    await story.done("drone", at + took)
    await story.begun("delivery", at + took + 0.1)
    await story.done("delivery", at + took + 0.6)


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
