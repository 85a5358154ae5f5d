"""Complete-by: nothing is begun after it, and nothing is told, but what must not be repeated."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from functions.pattern.messages import AgentRequest
from local.agent_check.kit import PATIENCE, Kit
from local.agent_check.verdicts import CheckFailedError, NotSeenError

#: Seconds in which a request that is held up is taken, and then ends too late.
_HELD_UP = 3.0
_A_LITTLE = 0.3


async def taken_after_complete_by(kit: Kit) -> None:
    """A request that is taken after its complete-by has no effect and no reply, and is completed."""
    late = kit.request(complete_in=-1)
    await kit.desk.ask([late], lives_on=True)
    await kit.silent(late)
    await kit.effects(late, least=0, most=0)


async def a_known_outcome_is_told_late(kit: Kit) -> None:
    """What must not be repeated and is known to be done is replied to again, also after complete-by."""
    done = kit.request(idempotent=False, complete_in=_HELD_UP)
    await kit.desk.ask([done])
    await kit.answered(done)
    await _until_late(done)
    await kit.desk.ask([done], lives_on=True)
    await kit.answered(done, times=2)
    await kit.effects(done)


async def ended_after_complete_by(kit: Kit) -> None:
    """Work that ends after complete-by is not replied to, where the step may be repeated."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=True)
        await kit.silent(late)


async def what_is_sent_once_ended_after_complete_by(kit: Kit) -> None:
    """Work that must not be repeated is replied to, however late it ends."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=False)
        await kit.answered(late, within=PATIENCE)
        await kit.effects(late)


async def _ended_late(kit: Kit, *, idempotent: bool) -> AgentRequest:
    async with kit.held_up():
        late = kit.request(idempotent=idempotent, complete_in=_HELD_UP)
        await kit.desk.ask([late])
        try:
            await kit.taken()
        except TimeoutError:
            raise CheckFailedError("the Agent did not take a request") from None
        await _until_late(late)
        if kit.desk.heard(late):
            raise NotSeenError("the Agent replied while --hold ran, which so holds nothing up")
    return late


async def _until_late(request: AgentRequest) -> None:
    left = (request.complete_by - datetime.now(UTC)).total_seconds()
    await asyncio.sleep(max(0.0, left) + _A_LITTLE)
