"""One effect for each key, one reply for each request."""

from __future__ import annotations

import asyncio
import uuid

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest
from local.agent_check.checks.undos import undo_of
from local.agent_check.kit import STARTS_WITHIN, Kit, run_of
from local.agent_check.verdicts import CheckFailedError

_MANY = 200


async def a_request(kit: Kit) -> None:
    """A request is carried out, and its reply echoes it (rule 1)."""
    request = kit.request()
    await kit.desk.ask([request])
    await kit.answered(request, within=STARTS_WITHIN)
    await kit.effects(request)
    await kit.all_receive()  # or what happens at once in two processes would not be seen
    await kit.learn_its_need()


async def the_same_request_once_more(kit: Kit) -> None:
    """A request that arrives twice has one effect and two replies with the same result (rule 1)."""
    request = kit.request()
    await kit.desk.ask([request, request])
    await kit.answered(request, times=2)
    await kit.effects(request)


async def the_same_key_in_a_new_epoch(kit: Kit) -> None:
    """A new start id with the same key causes one effect, one result, and a reply of its own (rule 1)."""
    first = kit.request()
    again = [kit.request(of=first, epoch=epoch) for epoch in range(2, kit.options.processes + 3)]
    await kit.desk.ask([first])
    before = await kit.answered(first)
    await kit.desk.ask(again)  # more than there are processes: one of them has had the key before
    for each in again:
        if (after := await kit.answered(each)).result != before.result:
            raise CheckFailedError(f"one key, two results: {before.result} and {after.result}")
    await kit.effects(first)


async def what_is_sent_once_and_done_is_asked_again(kit: Kit) -> None:
    """A new start of a key that is done gets its result, and causes no second effect (rule 7)."""
    done = kit.request(idempotent=False)
    await kit.desk.ask([done])
    before = await kit.answered(done)
    again = kit.request(of=done, epoch=2, idempotent=False)
    await kit.desk.ask([again])
    if (after := await kit.answered(again)).result != before.result:
        raise CheckFailedError(f"one key, two results: {before.result} and {after.result}")
    await kit.effects(done)


async def another_task_of_the_same_id(kit: Kit) -> None:
    """Another task of the same id has effects of its own: its run id is another one (rule 1)."""
    first = kit.request()
    await _is_apart(first, f"{first.task_id}.{uuid.uuid4().hex[:8]}", first.step, kit)


async def another_step_of_the_same_task(kit: Kit) -> None:
    """Another step of the task at the same Agent, of any name, has effects of its own (rule 1)."""
    first = kit.request()
    await _is_apart(first, run_of(first), "another-step", kit)


async def another_item_of_the_same_step(kit: Kit) -> None:
    """Another item of a for-each step has effects of its own: its number is in the key (rule 1)."""
    plain = kit.request()
    undo = kit.request(Direction.UNDO, of=plain, epoch=2)
    of_items = (_of_item(0, plain), _of_item(0, undo), _of_item(1, kit.request(of=plain)))
    for request in of_items:
        await kit.desk.ask([request])
        await kit.answered(request)
    await kit.effects(*of_items)


async def two_hundred_side_by_side(kit: Kit) -> None:
    """200 requests at once, two for each key, are all answered, and each key has one effect (rule 1)."""
    first = [kit.request() for _ in range(_MANY // 2)]
    again = [kit.request(of=request, epoch=2) for request in first]
    await kit.desk.ask([request for pair in zip(first, again, strict=True) for request in pair])
    replies = await asyncio.gather(*(kit.answered(each) for each in (*first, *again)))
    half = len(first)
    if any(one.result != two.result for one, two in zip(replies[:half], replies[half:], strict=True)):
        raise CheckFailedError("one key, two results")
    await kit.effects(*first)


def _of_item(number: int, request: AgentRequest) -> AgentRequest:
    """Ask for one item what was to be asked for the whole step."""
    step = f"{request.step}.{number}"
    key = f"{run_of(request)}/{step}/{request.direction}"
    return request.model_copy(update={"step": step, "effect_key": key})


async def _is_apart(first: AgentRequest, run: str, step: str, kit: Kit) -> None:
    """See that what becomes of a request is nothing to another one of its task id."""
    named = {"task_id": first.task_id, "step": step, "effect_key": f"{run}/{step}/do"}
    other = kit.request().model_copy(update=named)
    undo = await undo_of(first, kit)
    await kit.desk.ask([undo])
    await kit.answered(undo)
    await kit.desk.ask([other])
    await kit.answered(other)
    await kit.effects(first, undo, other)
