"""The remote services and the Agents behind queues: each effect takes place once for each effect key."""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from functions.agents.agent_call import (
    Call,
    LookUpAnswer,
    NotBegunError,
    RefusedError,
    UnusableResultError,
)
from functions.core.record import Direction
from functions.messaging.agent_messages import AgentReply, AgentRequest, Finding, ReplyOutcome, RequestKind
from functions.messaging.message_format import read_message
from tests.simulation.drawn import FENCING, REPLY_DAYS, SLOW, STEADY

if TYPE_CHECKING:
    from tests.simulation.world import World

#: A queue Agent does not begin with less time than this before the deadline.
TOO_LATE = timedelta(seconds=10)
NOT_TAKEN = "the Agent took the request too late"


@dataclass(slots=True)
class Effect:
    """The effect of one effect key at its service."""

    body: str
    done: int = 0
    result: str | None = None
    undone: bool = False


class Services:
    """All remote services, and the queues of Agents."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.effects: dict[str, Effect] = {}
        self.in_flight: Counter[str] = Counter()
        self.fenced: set[str] = set()
        self.hung: dict[str, str] = {}
        self.hung_starts: set[str] = set()
        self.troubled: set[str] = set()
        self.refusing: set[str] = set()
        self.refused_steps: set[tuple[str, str]] = set()
        self.hanging: set[str] = set()
        self.outages: dict[str, tuple[float, float]] = {}
        self.slow: dict[str, tuple[float, float]] = {}
        self.no_queue_until = 0.0
        self._begun: dict[str, dict[str, Any]] = {}
        self._queues: dict[str, set[str]] = defaultdict(set)
        self._consumers: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def is_down(self, agent: str) -> bool:
        """Return whether a service takes no calls, or a queue Agent is away."""
        start, end = self.outages.get(agent, (0.0, 0.0))
        return start <= asyncio.get_running_loop().time() < end

    def _is_slow(self, agent: str) -> bool:
        start, end = self.slow.get(agent, (0.0, 0.0))
        return start <= asyncio.get_running_loop().time() < end

    # Calls

    async def call(self, call: Call) -> str:
        """Carry out a call that has arrived. Raises the errors above."""
        world = self.world
        if self._hangs(call):
            await asyncio.sleep(300)
            raise ConnectionError("no answer")
        self.in_flight[call.effect_key] += 1
        try:
            slow = world.random.uniform(5, 60) if world.strikes("service slow", 0.06) else 0
            slow += 18 * call.step.startswith("long")
            if not is_steady(call) and Random(f"{world.seed}{call.task}").random() < 0.2:
                slow += 7  # so that a chain of calls outlasts a run, without a lag of ten seconds
            await asyncio.sleep(world.random.uniform(0.01, 0.5) + slow)
            return self._take_effect(call)
        finally:
            self.in_flight[call.effect_key] -= 1

    def arrive_later(self, call: Call, delay: float) -> None:
        """Let a call arrive `delay` seconds later, when its caller may be gone."""

        def arrive() -> None:
            self.in_flight[call.effect_key] -= 1
            try:
                self._take_effect(call, is_late=True)
            except (RefusedError, UnusableResultError, NotBegunError):
                return

        self.in_flight[call.effect_key] += 1
        asyncio.get_running_loop().call_later(delay, arrive)

    def _hangs(self, call: Call) -> bool:
        if is_steady(call):
            return False
        chance = Random(f"h{self.world.seed}{call.effect_key}").random()
        return call.direction is Direction.UNDO and self.world.intensity > 0 and chance < 0.04

    def _is_refused(self, call: Call, *, is_late: bool) -> bool:
        if (call.task, call.step) in self.refused_steps and call.direction is Direction.DO:
            return True
        if is_steady(call):
            return False
        chance = Random(f"{self.world.seed}{call.effect_key}").random()
        if 0.1 < chance < 0.25:  # the service may accept it at another time
            return not is_late and self.world.random.random() < 0.6
        return chance < (0.08 if call.direction is Direction.DO else 0.1)

    def _take_effect(self, call: Call, *, is_late: bool = False) -> str:
        """Do or undo the call's request, once for each effect key. Raises the errors above."""
        world = self.world
        if call.start_id in self.fenced:
            raise NotBegunError("this start is fenced")
        effect = self.effects.setdefault(call.effect_key, Effect(call.request))
        effect.body = effect.body or call.request
        world.require(effect.body == call.request, f"{call.effect_key}: two bodies")
        if self._is_refused(call, is_late=is_late) and not effect.done:
            raise RefusedError("no")
        if call.direction is Direction.UNDO:
            do = self.effects.setdefault(call.effect_key.replace("/undo", "/do"), Effect(""))
            do.undone, effect.done = True, 1
            return "{}"
        if effect.undone:
            raise RefusedError("it was undone")  # the service keeps a tombstone
        if call.idempotent and effect.done:
            return effect.result or "{}"
        effect.done += 1
        world.require(effect.done == 1, f"{call.effect_key}: done twice")
        step = call.effect_key.partition("/do")[0] + "/do"
        done = [key for key, other in self.effects.items() if key.startswith(step) and other.done]
        world.require(len(done) == 1, f"{done}: done in two generations")
        chance = 1.0 if is_steady(call) else Random(f"u{world.seed}{call.effect_key}").random()
        name, text = "m" if 0.03 < chance < 0.06 else "n", json.loads(call.request).get("text", "")
        effect.result = json.dumps({name: world.new_id(), "text": text}, ensure_ascii=False)
        if chance < 0.03:
            raise UnusableResultError("its result is too large")
        return effect.result

    def find(self, call: Call, *, fences_starts: bool) -> LookUpAnswer:
        """Look up an effect. A service that fences start ids rejects a request of this start from now on."""
        effect = self.effects.get(call.effect_key)
        self.world.cover(call.task, f"look-up at a service that fences: {fences_starts}")
        if self.world.random.random() < 0.2:
            raise ConnectionError("no answer")
        if effect is not None and effect.done and not effect.undone:
            return LookUpAnswer(Finding.DONE, effect.result or "{}")
        if fences_starts:
            self.fenced.add(call.start_id)
        return LookUpAnswer(Finding.NOT_DONE)

    # Queues

    async def serve(self, agent: str, request: AgentRequest, call: Call) -> None:
        """Serve a request of a queue: not begun if it waited too long, once if it must not be repeated."""
        if not await self._taken(agent, (call.complete_by - self.world.now()).total_seconds()):
            self.world.cover(call.task, "request expired in its queue")
            return
        if not await self._is_begun(agent, request, call) or self._never_replies(agent, call):
            return
        if agent == SLOW:
            await asyncio.sleep(timedelta(days=REPLY_DAYS).total_seconds())
        try:
            result = json.loads(await self.call(call))
        except RefusedError as error:
            await self._reply(request, ReplyOutcome.REFUSED, error=str(error))
        except UnusableResultError as error:
            await self._reply(request, ReplyOutcome.DONE, no_result=str(error))
        except NotBegunError as error:  # the start was fenced
            await self._reply(request, ReplyOutcome.NOT_TAKEN, error=str(error))
        except ConnectionError:
            return  # an Agent that hangs sends no reply
        else:
            await self._reply(request, ReplyOutcome.DONE, result=result)

    async def serve_look_up(self, agent: str, request: AgentRequest, call: Call) -> None:
        """Serve a look-up of a queue. Its reply may be lost, or arrive when the look-up is over."""
        world, fences_starts = self.world, agent in FENCING
        is_taken = await self._taken(agent, (call.complete_by - world.now()).total_seconds())
        if not is_taken or self.is_down(agent) or world.strikes("queue Agent dies", 0.05):
            return
        try:
            found = self.find(call, fences_starts=fences_starts)
        except ConnectionError as error:
            await self._reply(request, ReplyOutcome.UNKNOWN, error=str(error))
            return
        await asyncio.sleep(world.random.uniform(20, 90) if world.strikes("look-up late", 0.2) else 0)
        world.cover(call.task, f"look-up of a queue: {found.finding}")
        if found.finding is Finding.DONE:
            await self._reply(request, ReplyOutcome.DONE, result=json.loads(found.result))
        else:
            await self._reply(request, ReplyOutcome.NOT_DONE, fences_starts=fences_starts)

    async def _is_begun(self, agent: str, request: AgentRequest, call: Call) -> bool:
        """Begin a request that was taken, or reply that it was taken too late.

        One that must not be repeated, and comes again, has the recorded reply, or an unknown outcome.
        """
        world, is_repeated = self.world, call.start_id in self._begun and not call.idempotent
        if is_repeated:
            await self._reply(request, **(self._begun[call.start_id] or {"outcome": ReplyOutcome.UNKNOWN}))
            return False
        is_refusing = agent in self.refusing and self.is_down(agent)
        is_too_late = world.now() > call.complete_by - TOO_LATE
        self._begun.setdefault(call.start_id, {})
        if is_too_late or is_refusing or world.strikes("not taken", 0.05):
            await self._reply(request, ReplyOutcome.NOT_TAKEN, error=NOT_TAKEN)
            return False
        return not world.strikes("queue Agent dies", 0.05)

    def _never_replies(self, agent: str, call: Call) -> bool:
        if agent == SLOW or is_steady(call):
            return False
        if self.is_down(agent) and agent in self.hanging:
            return True
        chance = Random(f"g{self.world.seed}{call.effect_key}").random()
        if chance > 0.12 or call.effect_key in self.hung:
            return False
        self.hung[call.effect_key] = agent
        self.hung_starts.add(call.start_id)
        return True

    async def _taken(self, agent: str, seconds: float) -> bool:
        """Wait until the Agent takes a message; return False if the message expired before."""
        world, message = self.world, self.world.new_id()
        self._queues[agent].add(message)
        asyncio.get_running_loop().call_later(seconds, self._queues[agent].discard, message)
        late = world.random.uniform(5, 40) if world.strikes("request waits", 0.1) else 0
        await asyncio.sleep(world.random.uniform(0.01, 0.2) + late)
        async with self._consumers[agent]:  # messages are taken in order
            while self.is_down(agent) and agent not in self.refusing | self.hanging:
                await asyncio.sleep(world.random.uniform(0.5, 3))
            if self._is_slow(agent):
                await asyncio.sleep(world.random.uniform(1, 10))
            if message not in self._queues[agent]:
                return False
            self._queues[agent].discard(message)
            return True

    async def slow_down(self, agent: str, delay: float, seconds: float) -> None:
        """Make a queue Agent slow after `delay` seconds, with requests of other applications in its queue."""
        self.slow[agent] = (delay, delay + seconds)
        await asyncio.sleep(delay)
        for _ in range(self.world.random.randint(0, 12)):
            self.world.spawn(self.serve_another(agent))

    async def serve_another(self, agent: str) -> None:
        """Serve a request of another application, which waits in the same queue."""
        gate, sent_at = f"queue:{agent}", self.world.now()
        if await self._taken(agent, 600) and not (self.is_down(agent) and agent in self.hanging):
            await self.world.on_some_host(lambda host: host.reply_of_another(gate, sent_at))

    async def _reply(self, request: AgentRequest, outcome: ReplyOutcome, **fields: Any) -> None:
        world = self.world
        if request.kind is RequestKind.CARRY_OUT and outcome is not ReplyOutcome.UNKNOWN:
            self._begun[request.start_id] = {"outcome": outcome, **fields}
        echoed = request.model_dump(mode="json", include=set(AgentReply.model_fields) - {"result"})
        body = json.dumps({**echoed, "outcome": outcome, **fields}).encode()
        reply = read_message(AgentReply, body)
        for _ in range(2 if world.strikes("reply twice", 0.1) else 1):
            await asyncio.sleep(world.random.uniform(1, 60) if world.strikes("reply late", 0.06) else 0)
            world.spawn(world.deliver_reply(reply))


def is_steady(call: Call) -> bool:
    """Return whether the service of a call never fails."""
    return call.step in {"last", "reply"} or call.step.startswith("long") or call.task.startswith(STEADY)
