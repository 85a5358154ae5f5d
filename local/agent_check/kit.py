"""The kit of the checks: the Agent, its queues, its effects, and the shared judgements."""

from __future__ import annotations

import asyncio
import math
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from functions.core.json_values import json_text
from functions.core.record import NAME_PATTERN, Direction
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome, RequestKind
from local.agent_check.commands import AgentProcesses, CommandFailedError, count_effects, holding
from local.agent_check.queues import Desk, OwnBroker, Reply
from local.platform import StartRefusedError
from local.platform.watchdog import Watchdog

#: A running Agent replies or settles within these multiples of its time for one request, and of the lock.
_TIMES_ITS_NEED = 5
_TIMES_ITS_LOCK = 2
MOST_SECONDS = 300.0
#: The request without a file: the payment of the sample order.
_SAMPLE_REQUEST = {"customer": "C-1042", "amount": "9.80", "currency": "EUR"}
#: The shortest and the longest lock of a queue.
_LOCK_SECONDS = (5, 300)
#: Seconds in which an Agent that starts replies.
STARTS_WITHIN = 120.0
#: The wait for a reply ends when this many processes have ended without a kill.
_MOST_ENDS = 20
#: Seconds after the lock in which a repeated request is answered, and in which silence counts.
AFTER_LOCK = 5.0
SILENCE = 2.0
#: Seconds: enough for a slow Agent.
_COMPLETE_WITHIN = 600.0
_LOOK_EVERY = 0.05
_LOOK_AGAIN = 0.5


class CheckFailedError(Exception):
    """The Agent breaks a rule; the text is the observation."""


class NotSeenError(Exception):
    """The kit can't observe this; the text is the reason."""


@dataclass(frozen=True, slots=True)
class AgentCheckOptions:
    """The Agent to check, and the commands for its observation.

    `run` starts one process of the Agent, `effects` prints a count for each effect key. `hold` blocks the
    service that the Agent calls, from its first line until its end. `lock` is the queue's, in seconds.
    An Agent with `abandons_unreadable` can't dead-letter: Service Bus does, after its last delivery.
    `only` names the checks to run beside the first and the last ones; all if it is empty.
    """

    agent: str
    run: str
    processes: int = 2
    request: dict[str, Any] = field(default_factory=lambda: dict(_SAMPLE_REQUEST))
    effects: str | None = None
    hold: str | None = None
    connection: str | None = None
    lock: float = 15.0
    abandons_unreadable: bool = False
    only: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Validate the name, the command and the lock. Raises `StartRefusedError`."""
        if not re.fullmatch(NAME_PATTERN, self.agent):
            raise StartRefusedError(f"'{self.agent}' is not the name of an Agent ({NAME_PATTERN}).")
        if not self.run.strip():
            raise StartRefusedError("--run names no command.")
        least, most = _LOCK_SECONDS
        if not least <= self.lock <= most:
            raise StartRefusedError(f"--lock {self.lock:g}: a queue's lock is {least} s to {most // 60} min.")


def read_request(file: Path | None) -> dict[str, Any]:
    """Read the request of the checks, by default a payment. Raises `StartRefusedError`."""
    if file is None:
        return dict(_SAMPLE_REQUEST)
    try:
        request: dict[str, Any] = from_json(file.read_bytes())
        json_text("request", request)
    except (OSError, ValueError) as fault:
        raise StartRefusedError(f"The request {file} can't be read: {fault}") from None
    return request


@dataclass(slots=True)
class ReplyTimeout:
    """The timeout for the Agent's next reply. Times are by the loop's clock.

    `lock` and `needs` are in seconds; `needs` is the Agent's time for a single request. The Agent was last
    `killed` and `back` at these times.
    """

    lock: float
    needs: float = 0.0
    killed: float = 0.0
    back: float = 0.0

    @property
    def seconds(self) -> float:
        """Seconds to wait since the last sign of the Agent's work."""
        return min(max(_TIMES_ITS_LOCK * self.lock, _TIMES_ITS_NEED * self.needs), MOST_SECONDS)

    def ends(self, begun: float, heard: float, first_within: float | None = None) -> float:
        """Return the end of a wait; the first reply may have another limit."""
        if first_within is not None and heard < begun:
            return begun + first_within
        return max(begun, heard, self.unlocked, self.back) + self.seconds

    @property
    def unlocked(self) -> float:
        """When the requests of the killed Agent are delivered again at the latest."""
        return self.killed + self.lock

    def is_killed(self) -> None:
        """Record that the Agent is away, until it `is_back`."""
        self.killed, self.back = asyncio.get_running_loop().time(), math.inf

    def is_back(self) -> None:
        """Record that the Agent runs again, or that the wait for it ended."""
        self.back = asyncio.get_running_loop().time()


def run_of(request: AgentRequest) -> str:
    """Return the part of an effect key that all steps of a task share."""
    return request.effect_key.partition("/")[0]


def find_of(request: AgentRequest, *, complete_in: float = _COMPLETE_WITHIN) -> AgentRequest:
    """Return the look-up of a request that must not be repeated."""
    complete_by = datetime.now(UTC) + timedelta(seconds=complete_in)
    return request.model_copy(update={"kind": RequestKind.FIND, "complete_by": complete_by})


@dataclass(slots=True)
class Kit:
    """The Scheduler's place, with an Agent at the other end."""

    options: AgentCheckOptions
    desk: Desk
    agent: AgentProcesses
    broker: OwnBroker | None
    watchdog: Watchdog
    #: The lock of the check that kills or blocks the Agent.
    stage: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: The lock of the service while it is blocked, or its effects are counted.
    service: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Whether a killed Agent was observed to be dead.
    dies: bool = False
    timeout: ReplyTimeout = field(init=False)

    def __post_init__(self) -> None:
        self.timeout = ReplyTimeout(self.options.lock)

    def request(
        self,
        direction: Direction = Direction.DO,
        *,
        of: AgentRequest | None = None,
        epoch: int = 1,
        complete_in: float = _COMPLETE_WITHIN,
        idempotent: bool = True,
    ) -> AgentRequest:
        """Return a request for a new task, or another start `of` a known one, with a new start id."""
        new = uuid.uuid4().hex
        step = self.options.agent
        task = of.task_id if of else f"check-{new[:12]}"
        run = run_of(of) if of else f"{task}.{new[12:20]}"
        return AgentRequest(
            schema_version=1,
            task_id=task,
            step=step,
            direction=direction,
            epoch=epoch,
            start_id=uuid.uuid4().hex,
            effect_key=f"{run}/{step}/{direction}",
            complete_by=datetime.now(UTC) + timedelta(seconds=complete_in),
            idempotent=idempotent,
            request=self.options.request,
            result=None,
        )

    async def ask(
        self,
        request: AgentRequest,
        *,
        lives_on: bool = False,
        outcome: str | None = ReplyOutcome.DONE,
        times: int = 1,
        within: float | None = None,
    ) -> Reply:
        """Send a request, and wait for its replies as `answered` does."""
        await self.desk.ask([request], lives_on=lives_on)
        return await self.answered(request, outcome=outcome, times=times, within=within)

    async def answered(
        self,
        request: AgentRequest,
        *,
        times: int = 1,
        within: float | None = None,
        outcome: str | None = ReplyOutcome.DONE,
        lacking: str | None = None,
    ) -> Reply:
        """Wait for `times` replies to a request, all with the outcome and the same result; return the last.

        Each reply of the Agent to any request restarts the timeout. `within` limits the wait for the first
        one, in seconds. `lacking` names a missing reply after others.
        """
        ends = len(self.agent.ended)
        heard = self.desk.replies(request)
        now = asyncio.get_running_loop().time
        begun = now()
        if not await self._received(request, times, lambda: self._until(begun, within)):
            self.agent.see_that_it_runs()
            what = lacking or (f"{len(heard)} of {times} replies" if heard else self._no_reply(request))
            ended = "".join(f"; a process of the Agent ended, {each}" for each in self.agent.ended[ends:][:1])
            quiet = now() - max(begun, self.desk.last_reply_at)
            raise CheckFailedError(f"{what}, and nothing for {quiet:.0f} s{ended}")
        for reply in heard:
            if outcome is not None and reply.outcome != outcome:
                reason = f": {error}" if (error := reply.content.get("error")) else ""
                raise CheckFailedError(f"expected `{outcome}`, got `{reply.outcome}`{reason}")
            if reply.result != heard[0].result:
                raise CheckFailedError(f"one request, two results: {heard[0].result} and {reply.result}")
        return heard[-1]

    async def answered_in_time(self, request: AgentRequest, *, times: int = 1) -> Reply:
        """Wait for the reply after a crash: within the lock and `AFTER_LOCK`."""

        def last() -> float:
            shown = self.timeout  # another crash gives more time
            return max(shown.unlocked, shown.back, self.desk.last_reply_at) + AFTER_LOCK

        if not await self._received(request, times, last):
            seconds = f"{self.options.lock:g} s, the lock, and {AFTER_LOCK:g} s"
            replies = f"{len(self.desk.replies(request))} of {times} replies"
            raise CheckFailedError(f"{replies} within {seconds} after the crash")
        return await self.answered(request, times=times)

    async def settled(self, message_ids: Iterable[str]) -> bool:
        """Wait until the Agent has settled messages in any way; return False after the timeout."""
        begun = asyncio.get_running_loop().time()
        return await self.desk.until_settled(message_ids, lambda: self._until(begun))

    def _until(self, begun: float, first_within: float | None = None) -> float:
        return self.timeout.ends(begun, self.desk.last_reply_at, first_within)

    def _no_reply(self, request: AgentRequest) -> str:
        other = self.desk.answered_instead(request)
        if other is None:
            return "no reply"
        epochs = f"epoch {request.epoch} of this key has no reply; epoch {other.epoch}"
        return f"{epochs} has {len(self.desk.replies(other))}: was an older start id sent?"

    async def _received(self, request: AgentRequest, times: int, last: Callable[[], float]) -> bool:
        """Return whether `times` replies arrive until `last()`, which may increase."""
        now = asyncio.get_running_loop().time
        heard, end = self.desk.replies(request), now() + _COMPLETE_WITHIN
        most = len(self.agent.ended) + _MOST_ENDS
        while len(heard) < times and now() < min(end, last()):
            if self.agent.not_run or self.agent.is_given_up or len(self.agent.ended) >= most:
                break
            await self.desk.until(lambda: len(heard) >= times, _LOOK_AGAIN)
        return len(heard) >= times

    async def completed(self, *requests: AgentRequest) -> None:
        """Check that the Agent completes requests."""
        ids = {each.message_id for each in requests}
        if not await self.settled(ids):
            raise CheckFailedError("it is not completed: it comes again and again")
        dead = await self.desk.dead_letters(ids, 0)
        if reasons := [dead[each] for each in ids & dead.keys()]:
            raise CheckFailedError(f"it is not completed, but among the dead letters ({reasons[0]})")

    async def effects(self, *requests: AgentRequest, least: int = 1, most: int = 1) -> None:
        """Check the number of effects of each request; without `--effects`, check nothing."""
        if (counts := await self._counted()) is None:
            return
        for request in requests:
            if not least <= (count := counts[request.effect_key]) <= most:
                expected = str(least) if least == most else f"{least} to {most}"
                raise CheckFailedError(f"{count} effects of {request.effect_key}, not {expected}")

    async def without_effect(self, requests: Iterable[AgentRequest]) -> list[AgentRequest]:
        """Return the requests that had no effect; without `--effects`, all."""
        counts = await self._counted() or Counter()
        return [request for request in requests if not counts[request.effect_key]]

    async def _counted(self) -> Counter[str] | None:
        if self.options.effects is None:
            return None
        async with self.service:
            return await count_effects(self.options.effects)

    async def reaches(self, name: str, enough: Callable[[int], bool]) -> bool:
        """Wait until a figure of the requests' queue is `enough`; return False after the timeout.

        A namespace has no such figures.
        """
        if self.broker is None:
            await asyncio.sleep(_LOOK_AGAIN)
            return True
        now = asyncio.get_running_loop().time
        begun = now()
        while not enough(await self.broker.figure(self.desk.queue, name)):
            if now() > self._until(begun):
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True

    async def is_taken(self) -> bool:
        """Wait until the Agent has received a request; return False after the timeout."""
        return await self.reaches("locked", lambda requests: requests > 0)

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        """Block the service that the Agent calls, for the block, after the Agent's other work."""
        if self.options.hold is None:
            raise NotSeenError("needs --hold, a command that holds up the service that the Agent calls")
        await self.reaches("active", lambda requests: requests == 0)
        async with self.service, holding(self.options.hold, self.watchdog):
            yield

    async def kill(self) -> None:
        """Kill every process of the Agent; `start_again` must follow, when its service is not blocked.

        Its locks expire at once on the kit's own broker: otherwise its requests would be delivered again
        during another check, which may block the service.
        """
        self.timeout.is_killed()
        await self.agent.kill()
        if self.broker is not None:
            await self.broker.expire_locks(self.desk.queue)

    async def start_again(self) -> None:
        """Start as many processes as were killed, and wait until the Agent is back.

        Raises `CommandFailedError` if the killed Agent still works.
        """
        request = self.request()
        await self.desk.ask([request])
        try:
            await self._sees_that_it_is_dead(request)
            self.agent.start()
            await self.answered(request, within=STARTS_WITHIN)
        finally:
            self.timeout.is_back()

    async def _sees_that_it_is_dead(self, request: AgentRequest) -> None:
        """Check once that no process receives a request: each start uses the same command."""
        if self.dies:
            return
        if self.broker is not None:
            await self.broker.expire_locks(self.desk.queue)  # also of requests on the way to the killed Agent
        replied = await self.desk.until(lambda: bool(self.desk.replies(request)), SILENCE)
        if replied or (self.broker is not None and await self.broker.figure(self.desk.queue, "locked")):
            raise CommandFailedError(
                "the Agent was killed with --run, and is still at work: --run must stay in the foreground"
                " (exec; no daemon, no client of containers). It may run on: end it yourself"
            )
        self.dies = True

    def own_broker(self) -> OwnBroker:
        """Return the kit's own broker. Raises `NotSeenError` if the user named another."""
        if self.broker is None:
            raise NotSeenError("the broker of --connection is not the kit's to stop or slow down")
        return self.broker
