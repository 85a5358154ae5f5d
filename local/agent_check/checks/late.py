"""Complete-by: nothing is begun after it, and nothing is told, but what must not be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.states import Direction, Outcome
from local.agent_check.kit import AFTER_LOCK, SILENCE, Kit
from local.agent_check.verdicts import CheckFailedError, CommandFailedError, NotSeenError

#: Seconds until the complete-by of a request that is held up; where the Agent takes it late, more is given.
_HELD_UP = (3.0, 8.0, 20.0)
#: Seconds that outlast what clients wait for an answer, mostly 5 or 10.
_BEYOND_TIMEOUTS = 11.0
_A_LITTLE = 0.3
#: Seconds that are left of what would be needed; no Agent takes so long to look at a request.
_LEFT, _NEEDED = 300.0, 600.0
_GIVES_UP = "it gives up at complete-by, and rightly does not report an outcome it does not know"


async def taken_after_complete_by(kit: Kit) -> None:
    """What is taken after its complete-by, do or undo, has no effect, no reply, and is completed (rule 4)."""
    done = kit.request()
    await kit.desk.ask([done])
    await kit.answered(done)
    late = [
        kit.request(complete_in=-1),
        kit.request(complete_in=-1, idempotent=False),
        kit.request(Direction.UNDO, of=done, complete_in=-1),
    ]
    await kit.desk.ask(late, lives_on=True)
    await asyncio.gather(*(kit.silent(each) for each in late))
    await kit.effects(*late, least=0, most=0)


async def a_known_outcome_is_told_late(kit: Kit) -> None:
    """A known outcome of what must not be repeated is reported again, also after complete-by (rule 7)."""
    done = kit.request(idempotent=False)
    await kit.desk.ask([done])
    await kit.answered(done)
    late = done.model_copy(update={"complete_by": datetime.now(UTC)})
    await kit.desk.ask([late], lives_on=True)
    await kit.answered(done, times=2, lacking="no reply to the request that came after its complete-by")
    await kit.effects(done)


async def waited_too_long(kit: Kit) -> None:
    """What has less time left than the step's own is not begun, and told to be `not_taken` (rule 8)."""
    done = kit.request()
    await kit.desk.ask([done])
    await kit.answered(done)
    late = [
        kit.request(complete_in=_LEFT, complete_within=_NEEDED),
        kit.request(complete_in=_LEFT, complete_within=_NEEDED, idempotent=False),
        kit.request(Direction.UNDO, of=done, complete_in=_LEFT, complete_within=_NEEDED),
    ]
    await kit.desk.ask(late)
    for each in late:
        await kit.answered(each, outcome=Outcome.NOT_TAKEN)
    await kit.effects(*late, least=0, most=0)


async def what_was_begun_is_taken(kit: Kit) -> None:
    """What is begun in time is done, and what is done is not told to be `not_taken` later (rule 8)."""
    done = kit.request(idempotent=False, complete_within=_NEEDED, complete_in=2 * _NEEDED)
    await kit.desk.ask([done])
    await kit.answered(done)
    late = done.model_copy(update={"complete_by": datetime.now(UTC) + timedelta(seconds=_LEFT)})
    await kit.desk.ask([late])
    await kit.answered(done, times=2)
    await kit.effects(done)


async def a_timeout_is_no_refusal(kit: Kit) -> None:
    """While the service is slower than timeouts are, it is tried again: it is not refused (rule 3)."""
    async with kit.stage:
        async with kit.held_up():
            request = kit.request()
            await kit.desk.ask([request])
            await kit.is_taken()
            await kit.desk.until(lambda: bool(kit.desk.heard(request)), _BEYOND_TIMEOUTS)
        await kit.answered(request)
        await kit.effects(request)


async def ended_after_complete_by(kit: Kit) -> None:
    """Work that ends after complete-by is not replied to, where the step may be repeated (rule 4)."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=True)
        await kit.silent(late)


async def sent_once_work_that_ends_late(kit: Kit) -> None:
    """Work that must not be repeated is replied to, however late it ends (rule 7)."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=False)
        if await _gave_up(late, kit):
            raise NotSeenError(_GIVES_UP)
        await kit.answered(late)
        await kit.effects(late)


async def _ended_late(kit: Kit, *, idempotent: bool) -> AgentRequest:
    for seconds in _HELD_UP:
        async with kit.held_up():
            late = kit.request(idempotent=idempotent, complete_in=seconds)
            await kit.desk.ask([late])
            begun = await kit.is_taken() and _seconds_left(late) > seconds / 2
            await asyncio.sleep(_seconds_left(late) + _A_LITTLE)
            for reply in kit.desk.heard(late):
                if reply.outcome == Outcome.FAILED:
                    raise CheckFailedError("it is refused for good while --hold holds the service up")
                raise CommandFailedError("--hold holds nothing up: the Agent replied while it ran")
            if not idempotent and begun and await kit.desk.until_gone([late.message_id], _soon()):
                raise NotSeenError(_GIVES_UP)
        if begun:
            return late
    raise CheckFailedError(f"the Agent did not take a request within {_HELD_UP[-1] / 2:g} s")


async def _gave_up(late: AgentRequest, kit: Kit) -> bool:
    """Whether it gave up at the last moment of `--hold`: settled without a reply, and nothing was done."""
    if kit.options.effects is None or not await kit.settled(late):
        return False
    if await kit.desk.until(lambda: bool(kit.desk.heard(late)), SILENCE):
        return False
    return bool(await kit.without_effect([late]))


def _soon() -> Callable[[], float]:
    end = asyncio.get_running_loop().time() + AFTER_LOCK
    return lambda: end


def _seconds_left(request: AgentRequest) -> float:
    return max(0.0, (request.complete_by - datetime.now(UTC)).total_seconds())
