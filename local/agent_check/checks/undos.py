"""What is done is undone, once; and what is undone is never done."""

from __future__ import annotations

import asyncio
import uuid

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest
from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError

_SOME = 20


async def an_undo_twice(kit: Kit) -> None:
    """What was done is undone only once, however often that is asked; then its do is refused (rule 2)."""
    do = kit.request()
    undo = await undo_of(do, kit)
    await kit.desk.ask([undo])
    await kit.answered(undo)
    late = kit.request(of=do, epoch=3)
    await kit.desk.ask([late])
    await kit.answered(late, outcome="refused")
    again = kit.request(Direction.UNDO, of=do, epoch=4)
    await kit.desk.ask([again])
    await kit.answered(again)
    await kit.effects(do, undo)


async def an_undo_without_the_result(kit: Kit) -> None:
    """What was done is undone also when the undo does not tell the result of the do (rule 2)."""
    do = kit.request()
    await kit.desk.ask([do])
    await kit.answered(do)
    undo = kit.request(Direction.UNDO, of=do, epoch=2)
    await kit.desk.ask([undo])
    await kit.answered(undo)
    await kit.effects(do, undo)


async def an_undo_before_its_do(kit: Kit) -> None:
    """An undo of what was never done has no effect; a do that arrives later is refused, too (rule 2)."""
    undo = kit.request(Direction.UNDO)
    await kit.desk.ask([undo])
    await kit.answered(undo)
    late = kit.request(of=undo, epoch=2)
    await kit.desk.ask([late])
    await kit.answered(late, outcome="refused")
    await kit.effects(undo, late, least=0, most=0)


async def a_do_and_its_undo_at_once(kit: Kit) -> None:
    """A do and its undo at the same moment: what is done is undone, and nothing else is (rule 2)."""
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
    """What is undone by two requests at the same moment is undone only once (rule 1)."""
    undos = await asyncio.gather(*(undo_of(kit.request(), kit) for _ in range(_SOME)))
    again = [each.model_copy(update={"epoch": 3, "start_id": uuid.uuid4().hex}) for each in undos]
    await kit.desk.ask([request for pair in zip(undos, again, strict=True) for request in pair])
    await asyncio.gather(*(kit.answered(each) for each in (*undos, *again)))
    await kit.effects(*undos)


async def undo_of(do: AgentRequest, kit: Kit) -> AgentRequest:
    """Have something done; give the request to undo it, which tells what the do gave."""
    await kit.desk.ask([do])
    reply = await kit.answered(do)
    undo = kit.request(Direction.UNDO, of=do, epoch=2)
    return undo.model_copy(update={"result": reply.content.get("result")})
