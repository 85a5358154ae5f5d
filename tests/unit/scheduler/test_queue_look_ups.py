"""Unknown outcomes of queue steps that must not be repeated are looked up by the Agent behind the queue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from functions.core.derive import ProcessState, derive
from functions.core.step_definition import QueueStep
from functions.core.task_events import Rejection
from functions.messaging.agent_messages import AgentRequest, RequestKind
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


def paying(reply: dict[str, Any] | None, **options: Any) -> World:
    """Return a world in which the first request is lost, and each look-up has a reply; None: no reply."""
    world = World(workflow(PAY, on_failure="keep"), **options)

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


@virtual
async def test_look_up_that_cannot_be_sent_is_sent_again_until_its_deadline() -> None:
    """Also by a further run."""
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
    is_down[0] = False
    record = await world.until_rest("t1")
    assert (derive(record).state, kinds(world)) == (ProcessState.PROCESSED, ["carry out", "find"])
    assert world.activities == [("t1.1.1", "done"), ("t1.1.2", "done"), ("t1.1.3", "done")]


@pytest.mark.parametrize("delivers_again", [True, False])
@pytest.mark.parametrize("point", range(1, 50))
@virtual
async def test_crash_at_any_request(point: int, *, delivers_again: bool) -> None:
    """The payment starts once more only after the Agent's "not done"; a lost run costs the look-up."""
    world = paying({**NOT_DONE, "fences_starts": True})
    world.delivers_again = delivers_again
    world.process.crash_at = point
    await world.on_live_process(lambda _: world.admit("t1"))
    record = await world.until_rest("t1", seconds=300)
    messages = {each.message_id: each for each in world.requests}.values()
    finds = [each.start_id for each in messages if each.kind is RequestKind.FIND]
    starts = [each.start_id for each in messages if each.kind is RequestKind.CARRY_OUT]
    assert (len(finds), len(starts)) == (len(set(finds)), len(set(starts)))
    assert set(starts[:-1]) <= set(finds)
    state = derive(record).state
    assert state is ProcessState.PROCESSED or (state is ProcessState.ERROR and not delivers_again)


@virtual
async def test_crash_points_cover_the_whole_task() -> None:
    """The task of the test above has fewer requests than its largest crash point."""
    world = paying({**NOT_DONE, "fences_starts": True})
    await world.admit("t1")
    await world.until_rest("t1")
    assert 30 < world.process.requests < 50
