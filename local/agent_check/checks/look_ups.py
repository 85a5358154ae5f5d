"""A look-up finds whether a start did its step, and does nothing itself."""

from __future__ import annotations

from functions.messaging.agent_messages import AgentRequest, ReplyOutcome
from local.agent_check.kit import Kit, find_of
from local.agent_check.replies import HeardReply
from local.agent_check.verdicts import CheckFailedError, NotSeenError


async def a_look_up_of_what_was_done(kit: Kit) -> None:
    """A look-up finds what was done, with its result, and does not repeat it (rule 9)."""
    done = kit.request(idempotent=False)
    await kit.desk.ask([done])
    before = await kit.answered(done)
    after = await _found(kit, find_of(done))
    await kit.effects(done)
    if after.outcome == ReplyOutcome.UNKNOWN:
        raise NotSeenError("it replies `unknown` to a look-up: do not declare `find` for it")
    if after.outcome != ReplyOutcome.DONE:
        raise CheckFailedError(f"expected `done`, got `{after.outcome}`")
    if after.result != before.result:
        raise CheckFailedError(f"one start, two results: {before.result} and {after.result}")


async def a_look_up_of_what_was_not_begun(kit: Kit) -> None:
    """A look-up carries nothing out: what was not begun is `not_done` or `unknown` (rule 9)."""
    find = find_of(kit.request(idempotent=False))
    if (await _found(kit, find)).outcome == ReplyOutcome.DONE:
        raise CheckFailedError("it was never begun, and is found to be `done`")
    await kit.effects(find, least=0, most=0)


async def a_look_up_after_its_deadline(kit: Kit) -> None:
    """A look-up that is taken after its deadline is completed, and has no effect (rule 9)."""
    find = find_of(kit.request(idempotent=False), complete_in=-1)
    await kit.desk.ask([find], lives_on=True)
    await kit.completed(find)
    await kit.effects(find, least=0, most=0)


async def a_fence_holds(kit: Kit) -> None:
    """After `not_done` with `fences_starts`, that start is not taken, and the next one is done (rule 9)."""
    start = kit.request(idempotent=False)
    found = await _found(kit, find_of(start))
    if found.outcome != ReplyOutcome.NOT_DONE or not found.content.get("fences_starts"):
        raise NotSeenError("it does not fence starts, so that an operator decides after each look-up")
    await kit.desk.ask([start])
    await kit.answered(start, outcome=ReplyOutcome.NOT_TAKEN)
    await kit.effects(start, least=0, most=0)
    again = kit.request(of=start, epoch=2, idempotent=False)
    await kit.desk.ask([again])
    await kit.answered(again)
    await kit.effects(again)


async def _found(kit: Kit, find: AgentRequest) -> HeardReply:
    await kit.desk.ask([find])
    return await kit.answered(find, outcome=None)
