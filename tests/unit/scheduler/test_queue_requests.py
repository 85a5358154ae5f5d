"""Requests to the queues of Agents, and look-ups of unknown outcomes by the Agent behind a queue."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from functions.core.definition.step_definition import EventStep, QueueStep, Step
from functions.core.derive import ProcessState, derive
from functions.core.record import OperationState
from functions.core.task_events import EventReceived, Rejection
from functions.messaging.agent_messages import AgentRequest, Finding, RequestKind
from functions.messaging.task_messages import RunRequest
from tests.unit.scheduler.steps import PRODUCTION, RUN, answering, chain, once, raising, step
from tests.unit.scheduler.world import Receipt, World, request, workflow
from tests.unit.storage.virtual import virtual

PAY = QueueStep(
    "pay",
    agent="finder",
    request=request,
    result=Receipt,
    complete_within=60,
    idempotent=False,
    undo=True,
)
DONE: dict[str, Any] = {"outcome": "done", "result": {"number": 8}}
NOT_DONE: dict[str, Any] = {"outcome": "not_done", "result": None}
UNKNOWN: dict[str, Any] = {"outcome": "unknown", "result": None}


def paying(reply: dict[str, Any] | None, *, steps: Sequence[Step[Any]] = (), **options: Any) -> World:
    """Return a world in which the first request is lost, and each look-up has a reply; None: no reply."""
    world = World(workflow(PAY, *steps, on_failure="keep"), **options)

    async def take(_agent: str, message: AgentRequest) -> None:
        world.requests.append(message)
        is_find = message.kind is RequestKind.FIND
        if is_find and reply is not None:
            world.spawn(world.reply(message, after=1, **reply))
        elif not is_find and message.start_id != world.requests[0].start_id:
            world.spawn(world.reply(message, after=1))

    world.take_request = take
    return world


def kinds(world: World) -> list[str]:
    """Return the kinds of the requests, without repetitions of one message."""
    return [each.kind for each in {each.message_id: each for each in world.requests}.values()]


@pytest.mark.parametrize(
    ("reply", "state", "number"),
    [
        (DONE, ProcessState.PROCESSED, 8),
        ({**NOT_DONE, "fences_starts": True}, ProcessState.PROCESSED, 9),
        (NOT_DONE, ProcessState.ERROR, None),
        (UNKNOWN, ProcessState.ERROR, None),
        ({**DONE, "result": {"number": "x"}}, ProcessState.ERROR, None),
    ],
)
@virtual
async def test_unknown_outcome_is_looked_up(
    reply: dict[str, Any], state: ProcessState, number: int | None
) -> None:
    """Done counts; "not done" starts the step again only if the Agent fences earlier starts."""
    world = paying(reply)
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert derive(record).state is state
    is_repeated = reply.get("fences_starts", False)
    assert kinds(world) == ["carry out", "find", *(["carry out"] if is_repeated else [])]
    first, find = world.requests[:2]
    assert (find.start_id, find.effect_key, find.request) == (first.start_id, first.effect_key, first.request)
    assert find.complete_by > first.complete_by
    assert (record.do("pay").result, record.failures) == (number and f'{{"number":{number}}}', is_repeated)
    assert {progress for _, progress in world.activities} == {"done"}
    assert world.process.gates.replies[0] == ("queue:finder", None, True)  # it says nothing about a lag


@virtual
async def test_lost_look_up_ends_at_its_deadline() -> None:
    """No run repeats it, and an operator decides; of late replies to it only "done" counts."""
    world = paying(None)
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert (derive(record).state, record.do("pay").find_by) == (ProcessState.ERROR, None)
    assert (kinds(world), len(world.activities)) == (["carry out", "find"], 2)
    assert (await world.reply(world.requests[1], **NOT_DONE)).rejection is Rejection.NOT_OPEN
    assert (await world.reply(world.requests[1], **DONE)).rejection is None


@pytest.mark.parametrize("is_back", [True, False])
@virtual
async def test_look_up_that_cannot_be_sent_is_sent_again_until_its_deadline(*, is_back: bool) -> None:
    """Also by a further activity of the run. An operator decides after the deadline."""
    world = paying(DONE, run_seconds=20)
    take, is_down = world.take_request, [True]

    async def refuse(agent: str, message: AgentRequest) -> None:
        if message.kind is RequestKind.FIND and is_down[0]:
            raise ConnectionError("the queue does not answer")
        await take(agent, message)

    world.take_request = refuse
    await world.admit("t1")
    await asyncio.sleep(62)
    await world.sweep()
    await asyncio.sleep(30)
    is_down[0] = not is_back
    state = derive(await world.until_rest("t1")).state
    assert state is (ProcessState.PROCESSED if is_back else ProcessState.ERROR)
    assert kinds(world) == ["carry out", *(["find"] if is_back else [])]
    assert not is_back or world.activities == [("t1.1.1", "done"), ("t1.1.2", "more"), ("t1.1.2", "done")]


# Requests to queues


def without_broker(world: World, seconds: float) -> None:
    """Let each request fail until a time in seconds."""
    take = world.take_request

    async def fail(agent: str, message: AgentRequest) -> None:
        if asyncio.get_running_loop().time() < seconds:
            raise ConnectionError("no broker")
        await take(agent, message)

    world.take_request = fail


FIRST = step("first", complete_within=120)
#: It starts early in a run only.
LAST = step("last", FIRST, complete_within=225)


def queue(name: str, *needs: Step[Any], **options: Any) -> QueueStep[Any]:
    """Return a step behind a queue."""
    return QueueStep(name, needs=needs, **{"request": request, "result": Receipt, **options})


MANY: dict[str, Any] = {"for_each": lambda parcel: parcel.items, "at_once": 90, "complete_within": 3600}
LARGE: dict[str, Any] = {**MANY, "request": lambda *_: {"text": "ü" * 29_800}}
WAITING, LATER = queue("q", complete_within=3600), queue("pay", FIRST, complete_within=20, idempotent=False)
ABANDONED = queue("pay", complete_within=200, idempotent=False), queue("other", complete_within=62)


@pytest.mark.parametrize(
    ("steps", "first_takes", "broker_is_back", "gap"),
    [
        ((queue("q", FIRST, **MANY),), 30, 150, 0),
        ((queue("q", FIRST, **LARGE),), 30, 150, 0),
        ((WAITING, LATER), 35, 37, 0),
        (ABANDONED, 63, 100, 0),
        (ABANDONED, 40, 100, 15),
    ],
    ids=["long step", "wide plan", "pause", "abandoned", "abandoned before the next activity"],
)
@virtual
async def test_queue_that_takes_no_request_delays_no_other_step(
    steps: Sequence[QueueStep[Any]], first_takes: float, broker_is_back: float, gap: float
) -> None:
    """Other ready steps start in another activity: those that last too long, or do not fit beside it.

    No request waits for the pause of another one. A payment that its run abandons is sent once, in the next
    epoch, which begins before its run gives way to other work, or `gap` seconds before its next activity.
    """
    world = World(workflow(*steps, FIRST, LAST), settings=PRODUCTION)
    world.services.behaviour["first"] = answering('{"number":1}', first_takes)
    world.gap = gap
    without_broker(world, broker_is_back)
    await world.admit("t1", items=range(80))
    record = await world.until_rest("t1", seconds=4000)
    assert (derive(record).state, record.failures) == (ProcessState.PROCESSED, steps is ABANDONED)
    assert [each.step for each in world.requests].count("pay") == (steps[-1] is not steps[0])


@pytest.mark.parametrize("milliseconds", [25, 30, 35, 38])
@virtual
async def test_payment_is_sent_once_beside_an_event_of_its_task(milliseconds: int) -> None:
    """The event is being recorded when the request is sent."""
    pay = QueueStep("pay", request=request, complete_within=3600, result=Receipt, idempotent=False)
    world = World(workflow(pay, EventStep("event", event=Receipt, complete_within=3600)), settings=PRODUCTION)
    world.replies_after = 300
    await world.admit("t1")
    await asyncio.sleep(milliseconds / 1000)
    await world.process.change("t1", EventReceived(step="event", body='{"number":1}', who="me"))
    assert derive(await world.until_rest("t1", seconds=2000)).state is ProcessState.PROCESSED
    assert [each.step for each in world.requests] == ["pay"]


@virtual
async def test_look_up_does_not_wait_for_the_pause_of_a_request() -> None:
    """The answer is lost 29 s before the end of the run, just after a request to another queue has failed."""
    first = step("first", complete_within=225)
    card = once("card", first, agent="finder", complete_within=30)
    queue = QueueStep("other", request=request, complete_within=3600)
    world = World(workflow(first, card, queue, on_failure="keep"), settings=PRODUCTION)
    lost = raising(ConnectionError("lost"))
    world.services.behaviour |= {"first": answering('{"number":1}', 211.5), "card": lost}
    world.services.findings["card"], world.services.find_seconds = Finding.DONE, 3
    without_broker(world, 400)
    await world.admit("t1")
    await asyncio.sleep(245)
    assert (await world.record("t1")).do("card").state is OperationState.DONE


@pytest.mark.parametrize("seconds", [1, 200])
@virtual
async def test_look_up_has_its_time_from_its_start(seconds: float) -> None:
    """Its run is lost, maybe beside a call of the same task."""
    world = paying(DONE, steps=[step("other", complete_within=225)], settings=PRODUCTION)
    world.services.behaviour["other"] = answering('{"number":1}', seconds)
    deliver = world.start_instance

    def lose(message: RunRequest) -> None:
        if (message.epoch, message.run) != (1, 2):
            deliver(message)

    world.start_instance = lose  # type: ignore[method-assign]
    await world.admit("t1")
    assert derive(await world.until_rest("t1", seconds=3000)).state is ProcessState.PROCESSED


@virtual
async def test_unsent_request_is_sent_within_a_deadline_that_a_hold_extends() -> None:
    """The broker fails until 51 s, and a hold from 10 to 52 s extends the deadline from 50 to 92 s."""
    pay = QueueStep("pay", request=request, result=Receipt, complete_within=50, idempotent=False)
    world = World(workflow(pay, on_failure="keep"), settings=PRODUCTION)
    without_broker(world, 51)
    await world.admit("t1")
    await asyncio.sleep(10)
    await world.process.gates.hold("queue:pay", "maintenance", "op")
    await asyncio.sleep(42)
    await world.process.gates.end_hold("queue:pay")
    assert derive(await world.until_rest("t1", seconds=3000)).state is ProcessState.PROCESSED


@virtual
async def test_request_is_sent_until_its_deadline(caplog: pytest.LogCaptureFixture) -> None:
    """The broker fails for 170 seconds, longer than a run; the waits grow to 30 s.

    An activity logs its first failure, and another one after a minute.
    """
    world = World(workflow(QueueStep("q", request=request, complete_within=300)), run_seconds=80)
    take, failed = world.take_request, 0

    async def fail(agent: str, message: AgentRequest) -> None:
        nonlocal failed
        if asyncio.get_running_loop().time() < 170:
            failed += 1
            raise ConnectionError("no broker")
        await take(agent, message)

    world.take_request = fail
    await world.admit("t1")
    record = await world.until_rest("t1")
    assert (derive(record).state, record.failures, len(world.requests)) == (ProcessState.PROCESSED, 0, 1)
    assert (failed, len(caplog.messages)) == (7 + 7 + 4, 2 + 2 + 1)
    assert world.activities == [(RUN, "more"), (RUN, "more"), (RUN, "done")]


@pytest.mark.parametrize("hangs", [False, True])
@pytest.mark.parametrize("seconds", [200, 3600])
@virtual
async def test_request_that_its_agent_works_on_is_not_sent_again(seconds: float, *, hangs: bool) -> None:
    """The run needs another activity, since its calls take longer than one; or another epoch has begun."""
    pay = QueueStep("pay", request=request, result=Receipt, complete_within=seconds, idempotent=False)
    other = QueueStep("other", request=request, result=Receipt, complete_within=30 if hangs else 600)
    world = World(workflow(pay, other, *chain(4, complete_within=100)))
    world.services.seconds, world.replies_after = 60, min(seconds - 1, 400)
    await world.admit("t1")
    await asyncio.sleep(15)
    world.replies_after = 1
    record = await world.until_rest("t1")
    assert (derive(record).state, record.epoch) == (ProcessState.PROCESSED, 1 + hangs)
    assert [each.step for each in world.requests].count("pay") == 1
    assert hangs or world.activities == [(RUN, "more"), (RUN, "done")]


@virtual
async def test_request_is_not_sent_again_while_a_hold_extends_its_deadline() -> None:
    """Its Agent works on it for longer than its step allows."""
    pay = QueueStep("q", request=request, result=Receipt, complete_within=30, idempotent=False)
    world = World(workflow(pay))
    world.replies_after = 400
    await world.admit("t1")
    await asyncio.sleep(2)
    await world.process.gates.hold("queue:q", "maintenance", "op")
    record = await world.until_rest("t1")
    assert (derive(record).state, len(world.requests)) == (ProcessState.PROCESSED, 1)
