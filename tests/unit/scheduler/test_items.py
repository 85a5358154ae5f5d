"""A step for each item, as it is run: so many at once, and each reply finds its own item."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from functions.pattern.agent_messages import AgentReply, AgentRequest, done
from functions.pattern.definition import Json, Results
from functions.pattern.identity import StepName
from functions.pattern.states import ProcessState, Way
from functions.scheduler.takers import ReplyTaker
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, RecordedSchedulers
from tests.fakes.runners import limits
from tests.fakes.tasks import pending
from tests.fakes.times import MemoryTimes, RecordedRefusals
from tests.fakes.workflows import TASK, Parcel, each, step, workflow
from tests.unit.scheduler.bench import Bench

FLOW = workflow(step("open"), each("send", "open"), step("close", "send"))
QUEUED = workflow(each("send", via=Way.QUEUE, at_once=2))
ONCE = workflow(each("send", via=Way.QUEUE, idempotent=False))


class _Replies:
    """Takes the replies of the Agent behind the queue."""

    def __init__(self, bench: Bench) -> None:
        self.schedulers = RecordedSchedulers()
        self.refusals = RecordedRefusals()
        self._requests = bench.requests
        ports = fake_ports(
            store=bench.store, clock=bench.clock, rejected=RecordedRejections(), times=MemoryTimes()
        )
        self._taker = ReplyTaker(ports, limits(), self.refusals.alert)

    def request(self, number: int) -> AgentRequest:
        """Look at a request that was sent."""
        return self._requests.sent[number][1]

    async def to(self, number: int, **changes: Any) -> None:
        """Reply to a request, as an Agent does that knows of no items."""
        reply: AgentReply = done(self.request(number), {"n": number}).model_copy(update=changes)
        await self.take(reply.model_dump_json(exclude_defaults=True))

    async def take(self, body: str) -> None:
        """Take any message."""
        await self._taker.take("m-1", body.encode(), self.schedulers)


def _result(number: int) -> Json:
    return {"n": number}


async def test_each_item_is_called_by_itself() -> None:
    """With its own request, under its own key; what needs the step has the results of all before it."""
    bench = Bench(FLOW)
    bench.agents.behaviours = {f"send.{number}": partial(_result, number) for number in range(3)}
    await bench.run()
    assert bench.state is ProcessState.PROCESSED
    first, *sent, last = bench.agents.calls
    assert [(call.effect_key, call.request) for call in sent] == [
        (f"task-1.0a1b2c3d/send.{number}/do", {"item": number + 1, "after": ["open"]}) for number in range(3)
    ]
    assert (first.request["after"], last.request["after"]) == ([], ["open", "send"])
    # Items may be given by any object that can be called.
    bench = Bench(workflow(replace(each("send"), for_each=_Numbers(2))))
    await bench.run()
    assert [call.request["item"] for call in bench.agents.calls] == [0, 1]
    assert bench.state is ProcessState.PROCESSED


@dataclass
class _Numbers:
    """Gives items; it has no hash, as it can be compared with others."""

    most: int

    def __call__(self, _parcel: Parcel) -> list[int]:
        return list(range(self.most))


async def test_no_more_items_than_it_says_are_under_way() -> None:
    """Also of two runs side by side; the end of one item begins the next."""
    flow = workflow(each("send", at_once=2))
    bench = Bench(flow)
    bench.store.put(pending(flow, weight=4))
    bench.agents.slow(*(f"send.{number}" for number in range(4)))
    runs = asyncio.gather(bench.run(), bench.run(2, share=True))
    await bench.agents.until_called("send.0", "send.1")
    assert bench.agents.steps == ["send.0", "send.1"]
    bench.agents.let_go("send.1")
    await bench.agents.until_called("send.2")
    assert bench.agents.steps == ["send.0", "send.1", "send.2"]
    bench.agents.let_go("send.0", "send.2", "send.3")
    await runs
    assert bench.state is ProcessState.PROCESSED


async def test_item_without_a_place_is_not_looked_at() -> None:
    """Its functions get the results of all items before it: to ask each of many again holds up a process."""
    asked = Counter[int]()

    def request(_parcel: Parcel, _results: Results, item: int) -> Json:
        asked[item] += 1
        return {}

    flow = workflow(each("pick", at_once=45), replace(each("send", "pick", at_once=45), request=request))
    bench = Bench(flow)
    bench.store.put(pending(flow, weight=45))
    for number in range(1, 4):
        await bench.run(number, share=number > 1)
    assert bench.state is ProcessState.PROCESSED
    assert len(asked) == 45
    assert max(asked.values()) <= 4


async def test_reply_finds_its_item_by_its_token() -> None:
    """It names the step only; it wakes the Scheduler under the item's name, for the next item's request."""
    bench = Bench(QUEUED)
    replies = _Replies(bench)
    await bench.run()
    assert [(request.step, request.item) for _, request in bench.requests.sent] == [("send", 0), ("send", 1)]
    await replies.to(1)
    assert bench.states == {"send.0": "Running", "send.1": "Completed", "send.2": "NotStarted"}
    assert bench.step("send.1").result == b'{"n":1}'
    ((_, _, woken, progress),) = replies.schedulers.woken
    assert (woken, progress["runs"]) == ("send.1", 1)
    await bench.run(2, share=True)
    await replies.to(2)
    await replies.to(0)
    assert bench.state is ProcessState.PROCESSED
    # Reply with the token of no item counts for nothing.
    bench = Bench(QUEUED)
    replies = _Replies(bench)
    await bench.run()
    await replies.to(0, token="0" * 32)
    await replies.to(0, step=StepName("other"))
    assert set(bench.states.values()) == {"Running", "NotStarted"}
    assert replies.schedulers.woken == []


async def test_reply_that_can_t_be_read_is_told_of_its_item() -> None:
    """With the Agent; without a token that one of them has, of its step all the same."""
    bench = Bench(QUEUED)
    replies = _Replies(bench)
    await bench.run()
    for token in (replies.request(1).token, 7):
        await replies.take(json.dumps({"task_id": TASK, "step": "send", "token": token, "outcome": "done"}))
    assert [about.agent for about, _ in replies.refusals.alerts][:1] == ["send"]
