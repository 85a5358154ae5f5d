"""The dispatcher: delivers messages to instances, and schedules episodes and activities.

It does not poll: it receives work from commits, and from `sharing`, which reads pending rows. An instance has
at most one episode at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from itertools import count

from functions_local.durable.contract import EngineOptions
from functions_local.durable.database import MOST_HOSTS, Database
from functions_local.durable.event_json import encode
from functions_local.durable.events import Event
from functions_local.durable.instances import LiveInstance, LiveInstances, report_dropped
from functions_local.durable.scheduling import Lane, Timers
from functions_local.durable.store import InstanceMessage, PendingActivity


class Dispatcher:
    """All pending work, in memory; each item is also in the database."""

    def __init__(
        self, database: Database, instances: LiveInstances, options: EngineOptions, figures: Counter[str]
    ) -> None:
        self._database = database
        self._instances = instances
        self._options = options
        #: Whether history keeps the inputs of activities.
        self.stores_inputs = options.store_inputs
        self._figures = figures
        self._timers = Timers(self._hand_over, self._is_live)
        #: The place of this host among those that share the database.
        self.place = database.place
        self._message_numbers = count(self._first_number("inbox"), MOST_HOSTS)
        self._activity_numbers = count(self._first_number("activities"), MOST_HOSTS)
        self._episodes: Lane[LiveInstance]
        self._activities: Lane[PendingActivity]

    def start(
        self,
        run_episode: Callable[[LiveInstance], Awaitable[None]],
        run_activity: Callable[[PendingActivity], Awaitable[None]],
    ) -> None:
        """Accept work."""
        self._run_episode = run_episode
        self._episodes = Lane("episode", self._options.max_concurrent_orchestrators, self._run_and_reschedule)
        self._activities = Lane("activity", self._options.max_concurrent_activities, run_activity)

    async def close(self) -> None:
        """Start no more work, and wait at most `stop_grace` seconds for running work."""
        self._timers.close()
        grace = self._options.stop_grace
        await asyncio.gather(self._activities.close(grace), self._episodes.close(grace))

    def message(
        self, instance: str, execution: str | None, event: Event, due: float = 0.0
    ) -> InstanceMessage:
        """Make a message with the next number."""
        return InstanceMessage(next(self._message_numbers), instance, execution, due, event, encode(event))

    def activity(
        self, instance: LiveInstance, task: int, name: str, input_text: str | None
    ) -> PendingActivity:
        """Make an activity with the next number."""
        number = next(self._activity_numbers)
        return PendingActivity(number, instance.id, instance.execution, task, name, input_text)

    def deliver(self, messages: Iterable[InstanceMessage]) -> None:
        """Deliver committed messages to their instances, each when it is due."""
        now = time.time()
        for message in messages:
            if message.due > now:
                self._timers.arm(message)
            else:
                self._hand_over(message)

    def run_activities(self, activities: Iterable[PendingActivity]) -> None:
        """Queue committed activities."""
        for activity in activities:
            self._activities.put(activity)

    def _hand_over(self, message: InstanceMessage) -> None:
        instance = self._instances.get(message.instance, message.execution)
        if instance is None:
            # The instance or its generation has ended: only a client's message is for any generation.
            report_dropped([message])
            return
        if message.due:
            self._figures["timers_fired"] += 1
        instance.inbox.append(message)
        self._schedule(instance)

    def _is_live(self, message: InstanceMessage) -> bool:
        return self._instances.get(message.instance, message.execution) is not None

    def _schedule(self, instance: LiveInstance) -> None:
        if not instance.scheduled:
            instance.scheduled = True
            self._episodes.put(instance)

    async def _run_and_reschedule(self, instance: LiveInstance) -> None:
        await self._run_episode(instance)
        instance.scheduled = False
        if instance.inbox:
            self._schedule(instance)

    def _first_number(self, table: str) -> int:
        """Return a free number. A number modulo `MOST_HOSTS` is the place of the host that made it."""
        ((last,),) = self._database.query(f"SELECT coalesce(max(number), 0) FROM {table}")  # noqa: S608 - a constant
        return int(last) // MOST_HOSTS * MOST_HOSTS + MOST_HOSTS + self.place


@dataclass(frozen=True, slots=True)
class TaskHub:
    """The shared parts of the engine: the database, the live instances and the dispatcher."""

    database: Database
    instances: LiveInstances
    dispatcher: Dispatcher
    #: Counters since the start.
    figures: Counter[str]
