"""The checks of effect keys and undos: one effect for each key, one reply for each request."""

from __future__ import annotations

import asyncio
import uuid

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest
from local.agent_check.kit import MOST_SECONDS, STARTS_WITHIN, CheckFailedError, Kit, run_of

_SOME = 20
_MANY = 200


async def an_undo_twice(kit: Kit) -> None:
    """An effect is undone only once, also by a repeated undo; a later do is refused (rule 2)."""
    do = kit.request()
    undo = await undo_of(do, kit)
    await kit.ask(undo)
    late = kit.request(of=do, epoch=3)
    await kit.ask(late, outcome="refused")
    again = kit.request(Direction.UNDO, of=do, epoch=4)
    await kit.ask(again)
    await kit.effects(do, undo)


async def an_undo_without_the_result(kit: Kit) -> None:
    """An effect is undone, also if the undo does not contain the result of the do (rule 2)."""
    do = kit.request()
    await kit.ask(do)
    undo = kit.request(Direction.UNDO, of=do, epoch=2)
    await kit.ask(undo)
    await kit.effects(do, undo)


async def an_undo_before_its_do(kit: Kit) -> None:
    """An undo without an effect of its do changes nothing; a do that arrives later is refused (rule 2)."""
    undo = kit.request(Direction.UNDO)
    await kit.ask(undo)
    late = kit.request(of=undo, epoch=2)
    await kit.ask(late, outcome="refused")
    await kit.effects(undo, late, least=0, most=0)


async def a_do_and_its_undo_at_once(kit: Kit) -> None:
    """A do and its undo at the same moment: each effect is undone, and only these are (rule 2)."""
    dos = [kit.request() for _ in range(_SOME)]
    undos = [kit.request(Direction.UNDO, of=do, epoch=2) for do in dos]
    half = _SOME // 2  # either may come first
    pairs = [*zip(dos[:half], undos[:half], strict=True), *zip(undos[half:], dos[half:], strict=True)]
    await kit.desk.ask([request for pair in pairs for request in pair])
    await asyncio.gather(*(kit.answered(each) for each in undos))
    await asyncio.gather(*(kit.answered(each, outcome=None) for each in dos))
    await kit.effects(*dos, *undos, least=0)
    paid = {each.task_id for each in dos} - {each.task_id for each in await kit.without_effect(dos)}
    back = {each.task_id for each in undos} - {each.task_id for each in await kit.without_effect(undos)}
    if paid - back:
        raise CheckFailedError(f"{len(paid - back)} of {_SOME} stay done, though their undo is `done`")
    if back - paid:
        raise CheckFailedError(f"{len(back - paid)} of {_SOME} were undone, and never done")


async def many_undone_twice_at_once(kit: Kit) -> None:
    """An effect is undone only once by two requests of the same moment (rule 1)."""
    undos = await asyncio.gather(*(undo_of(kit.request(), kit) for _ in range(_SOME)))
    again = [each.model_copy(update={"epoch": 3, "start_id": uuid.uuid4().hex}) for each in undos]
    await kit.desk.ask([request for pair in zip(undos, again, strict=True) for request in pair])
    await asyncio.gather(*(kit.answered(each) for each in (*undos, *again)))
    await kit.effects(*undos)


async def undo_of(do: AgentRequest, kit: Kit) -> AgentRequest:
    """Have something done; give the request to undo it, which tells what the do gave."""
    reply = await kit.ask(do)
    undo = kit.request(Direction.UNDO, of=do, epoch=2)
    return undo.model_copy(update={"result": reply.content.get("result")})


async def a_request(kit: Kit) -> None:
    """A request is carried out, and its reply echoes it (rule 1)."""
    request = kit.request()
    await kit.ask(request, within=STARTS_WITHIN)
    await kit.effects(request)
    # Each process has a receiver: requests at the same moment then reach two processes.
    await kit.reaches("receivers", lambda many: many >= kit.options.processes)
    now = asyncio.get_running_loop().time
    begun = now()
    await kit.ask(kit.request(), within=MOST_SECONDS)
    kit.timeout.needs = now() - begun


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
    before = await kit.ask(first)
    await kit.desk.ask(again)  # more than there are processes: one of them has had the key before
    for each in again:
        if (after := await kit.answered(each)).result != before.result:
            raise CheckFailedError(f"one key, two results: {before.result} and {after.result}")
    await kit.effects(first)


async def what_is_sent_once_and_done_is_asked_again(kit: Kit) -> None:
    """A new start of a key that is done gets its result, and causes no second effect (rule 7)."""
    done = kit.request(idempotent=False)
    before = await kit.ask(done)
    again = kit.request(of=done, epoch=2, idempotent=False)
    if (after := await kit.ask(again)).result != before.result:
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
        await kit.ask(request)
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
    """Return the request of one item of a step."""
    step = f"{request.step}.{number}"
    key = f"{run_of(request)}/{step}/{request.direction}"
    return request.model_copy(update={"step": step, "effect_key": key})


async def _is_apart(first: AgentRequest, run: str, step: str, kit: Kit) -> None:
    """See that what becomes of a request is nothing to another one of its task id."""
    named = {"task_id": first.task_id, "step": step, "effect_key": f"{run}/{step}/do"}
    other = kit.request().model_copy(update=named)
    undo = await undo_of(first, kit)
    await kit.ask(undo)
    await kit.ask(other)
    await kit.effects(first, undo, other)
