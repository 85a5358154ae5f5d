"""Submission in a seed: callers reserve ids, the queue holds their orders, hosts record them; and checks."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from functions.http.problems import ProblemError
from functions.messaging.intake_measurement import record_intake
from functions.messaging.message_format import (
    Identity,
    QueueMessage,
    SubmissionMessage,
    order_messages,
    read_message,
)
from functions.messaging.queue_depths import Backlog
from functions.messaging.reservations import reserve as reserve_id
from functions.submission.admission import AdmissionResult
from tests.simulation.drawn import DrawnTask

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.world import World

#: Time after which the full sweep deletes a reservation without a task.
RESERVED_FOR = timedelta(hours=25)


class Intake:
    """The queue of submissions, and the orders whose callers were answered with 202, by id."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._accepted = defaultdict[str, set[Identity]](set)
        self._rejected = defaultdict[str, set[Identity]](set)
        self._waiting: dict[str, datetime] = {}

    async def submit(self, task: str, drawn: DrawnTask, caller: str = "caller") -> bool:
        """Submit an order under an id until it is answered; return whether it is accepted."""
        world = self._world

        async def put(host: Host) -> Identity | None:
            try:
                return await host.submit(task, drawn, caller)
            except ProblemError:
                return None

        identity = await world.on_some_host(put)
        world.log(f"{task} of {caller}: {'accepted' if identity else 'the id is taken'}")
        if identity is not None:
            self._accepted[task].add(identity)
        return identity is not None

    async def reserve_only(self, task: str, drawn: DrawnTask) -> None:
        """Reserve an id for an order that is never sent: its caller does not try again."""

        async def reserve(host: Host) -> None:
            await reserve_id(host.storage, host.drafted(task, drawn, "gone"))

        await self._world.on_some_host(reserve)

    async def publish(self, task: str, drawn: DrawnTask) -> None:
        """Send an order of an event hub, which reserves nothing."""

        async def post(host: Host) -> None:
            self.post(host.drafted(task, drawn, "hub"))

        await self._world.on_some_host(post)

    def post(self, order: SubmissionMessage) -> None:
        """Put an order on the queue, which delivers it at least once."""
        [(message, _)] = order_messages([order], [None])
        self.put(message)

    def put(self, message: QueueMessage, delay: float = 0) -> None:
        """Put a message on the queue, for a time in seconds."""
        world = self._world
        for number in range(2 if world.strikes("order twice", 0.1) else 1):
            late = world.random.uniform(1, 60) if world.strikes("order late", 0.05) else 0
            late += number * world.random.uniform(0, 300)
            world.spawn(self._deliver(message, delay + late + world.random.uniform(0.001, 0.1)))

    async def _deliver(self, message: QueueMessage, late: float) -> None:
        world, place = self._world, self._world.new_id()
        self._waiting[place] = world.now()
        await asyncio.sleep(late)
        order = read_message(SubmissionMessage, message.body)
        if await world.on_some_host(lambda host: host.take(message)) is AdmissionResult.REJECTED:
            world.log(f"{order.task_id} of {order.submitter}: rejected")
            world.cover(order.task_id, "rejected at intake")
            self._rejected[order.task_id].add((order.submitter, order.digest))
        del self._waiting[place]

    async def measure(self) -> None:
        """Record the backlog, as a timer of the application does."""
        oldest_at = min(self._waiting.values(), default=None)
        backlog = Backlog(len(self._waiting), 1, oldest_at)
        await record_intake(self._world.table, backlog, self._world.now())

    def check_end(self) -> None:
        """Check that each accepted order was recorded, and no other one under its id."""
        require = self._world.require
        for task, accepted in self._accepted.items():
            require(len(accepted) == 1, f"{task}: accepted of {accepted}")
            require(not accepted & self._rejected[task], f"{task}: accepted, and rejected at intake")
            order = self._world.records[task].order
            require((order.submitter, order.content) in accepted, f"{task}: {order.submitter}'s is recorded")

    def check_reservations(self) -> None:
        """Check that the full sweeps have deleted the reservations that no order has followed."""
        left = [key for (_, key), row in self._world.table.rows.items() if "Reserved" in row]
        self._world.require(not left, f"reservations are left: {left}")
