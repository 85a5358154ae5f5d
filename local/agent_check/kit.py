"""What the checks have in hand: the Agent, its queues, its effects; and the judgements that they share."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome, RequestKind
from local.agent_check.agent import AgentProcesses
from local.agent_check.broker import OwnBroker
from local.agent_check.desk import Desk
from local.agent_check.options import AgentCheckOptions
from local.agent_check.patience import MOST_SECONDS, Patience
from local.agent_check.replies import HeardReply
from local.agent_check.shell import count_effects, holding
from local.agent_check.verdicts import CheckFailedError, CommandFailedError, NotSeenError
from local.platform.watchdog import Watchdog

#: Seconds in which an Agent that starts replies.
STARTS_WITHIN = 120.0
#: Processes that ended by themselves while a reply was waited for: no more is waited.
_MOST_ENDS = 20
#: Seconds in which a request that comes again is answered beyond its lock, one that is given up is settled,
#: and silence shows.
AFTER_LOCK = 5.0
SILENCE = 2.0
#: Long enough for an Agent that takes its time.
_COMPLETE_WITHIN = 600.0
_LOOK_EVERY = 0.05
_LOOK_AGAIN = 0.5


def run_of(request: AgentRequest) -> str:
    """Return the part of an effect key that all steps of a task share."""
    return request.effect_key.partition("/")[0]


def find_of(request: AgentRequest, *, complete_in: float = _COMPLETE_WITHIN) -> AgentRequest:
    """Make the look-up of a request that must not be repeated."""
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
    #: Held by the one check that ends the Agent or holds it up.
    stage: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Held while the service is held up, or its effects are counted.
    service: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Whether it was seen that a killed Agent is dead.
    dies: bool = False
    patience: Patience = field(init=False)

    def __post_init__(self) -> None:
        self.patience = Patience(self.options.lock)

    async def learn_its_need(self) -> None:
        """Measure how long the Agent needs for one request."""
        now = asyncio.get_running_loop().time
        request, begun = self.request(), now()
        await self.desk.ask([request])
        await self.answered(request, within=MOST_SECONDS)
        self.patience.needs = now() - begun

    def request(
        self,
        direction: Direction = Direction.DO,
        *,
        of: AgentRequest | None = None,
        epoch: int = 1,
        complete_in: float = _COMPLETE_WITHIN,
        idempotent: bool = True,
    ) -> AgentRequest:
        """Make a request for a new task, or another start `of` a known one, with a new start id."""
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

    async def answered(
        self,
        request: AgentRequest,
        *,
        times: int = 1,
        within: float | None = None,
        outcome: str | None = ReplyOutcome.DONE,
        lacking: str | None = None,
    ) -> HeardReply:
        """Wait for so many replies to a request, all with the outcome and the same result; give the last.

        The Agent may have much to do: with each reply to anything, its patience begins anew. `within` is how
        long the first may take. `lacking` names the reply that is missing where there are others.
        """
        ends = len(self.agent.ended)
        heard = self.desk.heard(request)
        now = asyncio.get_running_loop().time
        begun = now()
        if not await self._heard(request, times, lambda: self._until(begun, within)):
            self.agent.see_that_it_runs()
            what = lacking or (f"{len(heard)} of {times} replies" if heard else self._no_reply(request))
            ended = "".join(f"; a process of the Agent ended, {each}" for each in self.agent.ended[ends:][:1])
            quiet = now() - max(begun, self.desk.heard_last)
            raise CheckFailedError(f"{what}, and nothing for {quiet:.0f} s{ended}")
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
            shown = self.patience  # another crash gives more time
            return max(shown.unlocked, shown.back, self.desk.heard_last) + AFTER_LOCK

        if not await self._heard(request, times, last):
            seconds = f"{self.options.lock:g} s, the lock, and {AFTER_LOCK:g} s"
            replies = f"{len(self.desk.heard(request))} of {times} replies"
            raise CheckFailedError(f"{replies} within {seconds} after the crash")
        return await self.answered(request, times=times)

    async def settled(self, message_ids: Iterable[str]) -> bool:
        """Wait until the Agent has settled messages, whatever it did with them; tell whether it has."""
        begun = asyncio.get_running_loop().time()
        return await self.desk.until_gone(message_ids, lambda: self._until(begun))

    def _until(self, begun: float, first_within: float | None = None) -> float:
        return self.patience.ends(begun, self.desk.heard_last, first_within)

    def _no_reply(self, request: AgentRequest) -> str:
        other = self.desk.answered_instead(request)
        if other is None:
            return "no reply"
        epochs = f"epoch {request.epoch} of this key has no reply; epoch {other.epoch}"
        return f"{epochs} has {len(self.desk.heard(other))}: was an older start id sent?"

    async def _heard(self, request: AgentRequest, times: int, last: Callable[[], float]) -> bool:
        """Wait for so many replies, until a time that may move on; tell whether they came."""
        now = asyncio.get_running_loop().time
        heard, end = self.desk.heard(request), now() + _COMPLETE_WITHIN
        most = len(self.agent.ended) + _MOST_ENDS
        while len(heard) < times and now() < min(end, last()):
            if self.agent.not_run or self.agent.is_given_up or len(self.agent.ended) >= most:
                break
            await self.desk.until(lambda: len(heard) >= times, _LOOK_AGAIN)
        return len(heard) >= times

    async def completed(self, *requests: AgentRequest) -> None:
        """See that the Agent completes requests."""
        ids = {each.message_id for each in requests}
        if not await self.settled(ids):
            raise CheckFailedError("it is not completed: it comes again and again")
        dead = await self.desk.dead_letters(ids, 0)
        if reasons := [dead[each] for each in ids & dead.keys()]:
            raise CheckFailedError(f"it is not completed, but among the dead letters ({reasons[0]})")

    async def effects(self, *requests: AgentRequest, least: int = 1, most: int = 1) -> None:
        """See how often each request had its effect; without `--effects`, nothing is seen."""
        if self.options.effects is None:
            return
        counts = await self._counted(self.options.effects)
        for request in requests:
            if not least <= (count := counts[request.effect_key]) <= most:
                expected = str(least) if least == most else f"{least} to {most}"
                raise CheckFailedError(f"{count} effects of {request.effect_key}, not {expected}")

    async def without_effect(self, requests: Iterable[AgentRequest]) -> list[AgentRequest]:
        """Choose those that had no effect; without `--effects`, all."""
        counts = Counter[str]() if self.options.effects is None else await self._counted(self.options.effects)
        return [request for request in requests if not counts[request.effect_key]]

    async def _counted(self, command: str) -> Counter[str]:
        async with self.service:
            return await count_effects(command)

    async def is_taken(self) -> bool:
        """Wait until the Agent has a request in its hands; tell whether it has."""
        if self.broker is None:
            await asyncio.sleep(_LOOK_AGAIN)  # a namespace doesn't tell
            return True
        return await self._comes_to("locked", lambda requests: requests > 0)

    async def all_receive(self) -> bool:
        """Wait until there is a receiver for each process of the Agent; tell whether there is."""
        if self.broker is None:
            return True  # a namespace doesn't tell
        return await self._comes_to("receivers", lambda many: many >= self.options.processes)

    async def has_nothing_to_do(self) -> bool:
        """Wait until the Agent has settled all that it was asked; tell whether it has."""
        return await self._comes_to("active", lambda requests: requests == 0)

    async def _comes_to(self, name: str, enough: Callable[[int], bool]) -> bool:
        begun, broker = asyncio.get_running_loop().time(), self.own_broker()
        while not enough(await broker.figure(self.desk.queue, name)):
            if asyncio.get_running_loop().time() > self._until(begun):
                return False
            await asyncio.sleep(_LOOK_EVERY)
        return True

    @asynccontextmanager
    async def held_up(self) -> AsyncIterator[None]:
        """Hold up the service that the Agent calls, for the block, in which it has nothing else to do."""
        if self.options.hold is None:
            raise NotSeenError("needs --hold, a command that holds up the service that the Agent calls")
        if self.broker is not None:
            await self.has_nothing_to_do()
        async with self.service, holding(self.options.hold, self.watchdog):
            yield

    async def kill(self) -> None:
        """Kill every process of the Agent; `start_again` must follow, when nothing holds it up any more.

        The locks that it had run out at once on the kit's own broker: otherwise what comes again would meet
        whatever another check does by then, such as a service that is held up.
        """
        self.patience.is_killed()
        await self.agent.kill()
        if self.broker is not None:
            await self.broker.expire_locks(self.desk.queue)

    async def start_again(self) -> None:
        """Start as many processes as were killed, and wait until the Agent is back.

        Raises `CommandFailedError` where the Agent is at work before.
        """
        request = self.request()
        await self.desk.ask([request])
        try:
            await self._sees_that_it_is_dead(request)
            self.agent.start()
            await self.answered(request, within=STARTS_WITHIN)
        finally:
            self.patience.is_back()

    async def _sees_that_it_is_dead(self, request: AgentRequest) -> None:
        """See that nobody takes a request; once is enough, as it is started in the same way each time."""
        if self.dies:
            return
        if self.broker is not None:
            await self.broker.expire_locks(self.desk.queue)  # also of what was on its way to the killed one
        replied = await self.desk.until(lambda: bool(self.desk.heard(request)), SILENCE)
        if replied or (self.broker is not None and await self.broker.figure(self.desk.queue, "locked")):
            raise CommandFailedError(
                "the Agent was killed with --run, and is still at work: --run must stay in the foreground"
                " (exec; no daemon, no client of containers). It may run on: end it yourself"
            )
        self.dies = True

    def own_broker(self) -> OwnBroker:
        """Give the kit's own broker. Raises `NotSeenError` where it is somebody else's."""
        if self.broker is None:
            raise NotSeenError("the broker of --connection is not the kit's to stop or slow down")
        return self.broker
