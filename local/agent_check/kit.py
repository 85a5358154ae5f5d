"""What the checks have in hand: the Agent, its queues, its effects; and the judgements that they share."""

from __future__ import annotations

import asyncio
import math
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.identity import (
    Epoch,
    StepName,
    TaskId,
    effect_key,
    new_birth,
    resource_id,
    resource_of,
)
from functions.pattern.states import Direction
from local.agent_check.agent import AgentProcesses
from local.agent_check.broker import OwnBroker
from local.agent_check.desk import Desk
from local.agent_check.options import AgentCheckOptions
from local.agent_check.replies import HeardReply
from local.agent_check.shell import count_effects, holding
from local.agent_check.verdicts import CheckFailedError, NotSeenError
from local.platform.watchdog import Watchdog

#: Seconds in which an Agent that runs replies to something, and settles; and one that starts, replies.
PATIENCE = 30.0
STARTS_WITHIN = 120.0
#: Processes that ended by themselves while a reply was waited for: no more is waited.
#: One that never replied can't start.
_MOST_ENDS = 20
_MOST_STARTS = 6
#: Seconds in which a request that comes again is answered beyond its lock, one that is given up is settled,
#: and silence shows.
AFTER_LOCK = 5.0
SILENCE = 2.0
#: Long enough for an Agent that takes its time.
_COMPLETE_WITHIN = 600.0
_LOOK_EVERY = 0.05
_LOOK_AGAIN = 0.5


@dataclass(slots=True)
class Kit:
    """The Scheduler's place, with an Agent at the other end."""

    options: AgentCheckOptions
    desk: Desk
    agent: AgentProcesses
    broker: OwnBroker | None
    watchdog: Watchdog
    #: Held by the one check that ends the Agent or holds it up.
    stage: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Held while the service is held up, or its effects are counted.
    service: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: When the Agent was killed last, and when it was back, by the loop's clock.
    killed: float = 0.0
    back: float = 0.0

    def request(
        self,
        direction: Direction = Direction.DO,
        *,
        of: AgentRequest | None = None,
        epoch: int = 1,
        complete_in: float = _COMPLETE_WITHIN,
        idempotent: bool = True,
    ) -> AgentRequest:
        """Make a request for a new task, or another one `of` a task that is known; each has its own token."""
        new = uuid.uuid4().hex
        step = StepName(self.options.agent)
        task = of.task_id if of else TaskId(f"check-{new[:12]}")
        resource = resource_of(of.effect_key) if of else resource_id(task, new_birth(new[12:]))
        return AgentRequest(
            schema_version=2,
            task_id=task,
            step=step,
            epoch=Epoch(epoch),
            token=uuid.uuid4().hex,
            direction=direction,
            effect_key=effect_key(resource, step, direction),
            complete_by=datetime.now(UTC) + timedelta(seconds=complete_in),
            idempotent=idempotent,
            request=self.options.request,
        )

    async def answered(
        self,
        request: AgentRequest,
        *,
        times: int = 1,
        within: float = PATIENCE,
        outcome: str | None = "completed",
        lacking: str | None = None,
    ) -> HeardReply:
        """Wait for so many replies to a request, all with the outcome and the same result; give the last.

        What is waited for begins anew with each reply: the Agent may have much to do. `lacking` names the
        reply that is missing where there are others.
        """
        ends = len(self.agent.ended)
        heard = self.desk.heard(request)
        begun = asyncio.get_running_loop().time()
        if not await self._heard(request, times, lambda: max(begun, self.desk.heard_last) + within):
            what = lacking or f"{len(heard)} of {times} replies" if heard else self._no_reply(request)
            ended = "".join(f"; a process of the Agent ended, {each}" for each in self.agent.ended[ends:][:1])
            raise CheckFailedError(f"{what}, and nothing for {within:g} s{ended}")
        for reply in heard:
            if outcome is not None and reply.outcome != outcome:
                reason = f": {error}" if (error := reply.content.get("error")) else ""
                raise CheckFailedError(f"expected `{outcome}`, got `{reply.outcome}`{reason}")
            if reply.result != heard[0].result:
                raise CheckFailedError(f"one request, two results: {heard[0].result} and {reply.result}")
        return heard[-1]

    async def answered_in_time(self, request: AgentRequest, *, times: int = 1) -> HeardReply:
        """Wait for the reply that comes after a crash: within the lock, and a little."""

        def last() -> float:
            unlocked = self.killed + self.options.lock  # another crash gives more time
            return max(unlocked, self.back, self.desk.heard_last) + AFTER_LOCK

        if not await self._heard(request, times, last):
            seconds = f"{self.options.lock:g} s, the lock, and {AFTER_LOCK:g} s"
            replies = f"{len(self.desk.heard(request))} of {times} replies"
            raise CheckFailedError(f"{replies} within {seconds} after the crash")
        return await self.answered(request, times=times)

    def _no_reply(self, request: AgentRequest) -> str:
        other = self.desk.answered_instead(request)
        if other is None:
            return "no reply"
        epochs = f"epoch {request.epoch} of this key has no reply; epoch {other.epoch}"
        return f"{epochs} has {len(self.desk.heard(other))}: was an older token sent?"

    async def _heard(self, request: AgentRequest, times: int, last: Callable[[], float]) -> bool:
        """Wait for so many replies, until a time that may move on; tell whether they came."""
        now = asyncio.get_running_loop().time
        heard, end = self.desk.heard(request), now() + _COMPLETE_WITHIN
        most = len(self.agent.ended) + (_MOST_ENDS if self.desk.heard_last else _MOST_STARTS)
        while len(heard) < times and now() < min(end, last()) and len(self.agent.ended) < most:
            await self.desk.until(lambda: len(heard) >= times, _LOOK_AGAIN)
        return len(heard) >= times

    async def silent(self, request: AgentRequest) -> None:
        """See that the Agent completes a request that is late, and does not reply."""
        if not await self.desk.until_gone([request.message_id], PATIENCE):
            raise CheckFailedError(
                "it was not replied to, but not completed either: it comes again and again"
            )
        if await self.desk.until(lambda: bool(self.desk.heard(request)), SILENCE):
            raise CheckFailedError("a reply was sent after complete-by")
        dead = await self.desk.dead_letters([request.message_id], 0)
        if (reason := dead.get(request.message_id)) is not None:
            raise CheckFailedError(f"it is not completed, but among the dead letters ({reason})")

    async def effects(self, *requests: AgentRequest, least: int = 1, most: int = 1) -> None:
        """See how often each request had its effect; without `--effects`, nothing is seen."""
        if self.options.effects is None:
            return
        async with self.service:
            counts: Counter[str] = await count_effects(self.options.effects)
        for request in requests:
            if not least <= (count := counts[request.effect_key]) <= most:
                expected = str(least) if least == most else f"{least} to {most}"
                raise CheckFailedError(f"{count} effects of {request.effect_key}, not {expected}")

    async def is_taken(self) -> bool:
        """Wait until the Agent has a request in its hands; tell whether it has."""
        if self.broker is None:
            await asyncio.sleep(_LOOK_AGAIN)  # a namespace doesn't tell
            return True
        try:
            async with asyncio.timeout(PATIENCE):
                while not await self.broker.locked(self.desk.queue):  # noqa: ASYNC110 - another process
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            return False
        return True

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        """Hold up the service that the Agent calls, for the block."""
        if self.options.hold is None:
            raise NotSeenError("needs --hold, a command that holds up the service that the Agent calls")
        async with self.service, holding(self.options.hold, self.watchdog):
            yield

    async def kill(self) -> None:
        """Kill every process of the Agent; `start_again` must follow, when nothing holds it up any more."""
        self.killed, self.back = asyncio.get_running_loop().time(), math.inf
        await self.agent.kill()

    async def start_again(self) -> None:
        """Start as many processes as were killed, and wait until the Agent is back."""
        self.agent.start()
        request = self.request()
        await self.desk.ask([request])
        try:
            await self.answered(request, within=STARTS_WITHIN)
        finally:
            self.back = asyncio.get_running_loop().time()

    def own_broker(self) -> OwnBroker:
        """Give the kit's own broker. Raises `NotSeenError` where it is somebody else's."""
        if self.broker is None:
            raise NotSeenError("the broker of --connection is not the kit's to stop or slow down")
        return self.broker
