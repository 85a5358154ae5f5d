"""Complete-by: nothing is begun after it, and nothing is told, but what must not be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome
from local.agent_check.kit import AFTER_LOCK, SILENCE, Kit
from local.agent_check.verdicts import CheckFailedError, CommandFailedError, NotSeenError

#: Seconds until the complete-by of a request that is held up; where the Agent takes it late, more is given.
_HELD_UP = (3.0, 8.0, 20.0)
#: Seconds that outlast what clients wait for an answer, mostly 5 or 10.
_BEYOND_TIMEOUTS = 11.0
_A_LITTLE = 0.3
#: Seconds until the deadline of a request that arrives again after it; an Agent with much to do gets more.
_SHORT = (5.0, 20.0, 80.0)
#: Outcomes of work that the Agent did not end.
_NOT_ENDED = {ReplyOutcome.NOT_TAKEN, ReplyOutcome.UNKNOWN}
_GIVES_UP = "it gives up at complete-by, and rightly does not report an outcome it does not know"


async def taken_after_complete_by(kit: Kit) -> None:
    """A do or undo that is taken after its deadline has no effect and the reply `not_taken` (rule 4)."""
    done = kit.request()
    await kit.desk.ask([done])
    await kit.answered(done)
    late = [
        kit.request(complete_in=-1),
        kit.request(complete_in=-1, idempotent=False),
        kit.request(Direction.UNDO, of=done, complete_in=-1),
    ]
    await kit.desk.ask(late, lives_on=True)
    for each in late:
        await kit.answered(each, outcome=ReplyOutcome.NOT_TAKEN)
    await kit.completed(*late)
    await kit.effects(*late, least=0, most=0)


async def a_known_outcome_is_told_late(kit: Kit) -> None:
    """A known outcome is sent again after the deadline if the step must not be repeated (rule 7)."""
    done = await _again_after_its_deadline(kit, ReplyOutcome.DONE)
    await kit.answered(done, times=2, lacking="no reply to the request that came after its complete-by")
    await kit.effects(done)


async def a_recorded_refusal_is_sent_late(kit: Kit) -> None:
    """A known refusal is sent again after the deadline, and is never `not_taken` (rule 7)."""
    undo = kit.request(Direction.UNDO)
    await kit.desk.ask([undo])
    await kit.answered(undo)
    refused = await _again_after_its_deadline(kit, ReplyOutcome.REFUSED, of=undo)
    await kit.answered(refused, times=2, outcome=ReplyOutcome.REFUSED)


async def what_was_not_taken_is_never_begun(kit: Kit) -> None:
    """A start that was not taken is not begun when it arrives again (rule 8)."""
    late = kit.request(complete_in=-1, idempotent=False)
    for times in (1, 2):
        await kit.desk.ask([late], lives_on=True)
        await kit.answered(late, times=times, outcome=ReplyOutcome.NOT_TAKEN)
    await kit.effects(late, least=0, most=0)


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
    """Work that ends after its deadline is not replied to, where the step may be repeated (rule 4)."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=True)
        await kit.completed(late)
        await kit.desk.until(lambda: bool(kit.desk.heard(late)), SILENCE)
        outcomes = {reply.outcome for reply in kit.desk.heard(late)}
        if outcomes - _NOT_ENDED:
            raise CheckFailedError("a reply was sent after complete-by")
        if ReplyOutcome.NOT_TAKEN in outcomes:
            await kit.effects(late, least=0, most=0)


async def sent_once_work_that_ends_late(kit: Kit) -> None:
    """Work that must not be repeated is replied to, however late it ends (rule 7)."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=False)
        if await _gave_up(late, kit):
            raise NotSeenError(_GIVES_UP)
        await kit.answered(late)
        await kit.effects(late)


async def _again_after_its_deadline(
    kit: Kit, outcome: ReplyOutcome, of: AgentRequest | None = None
) -> AgentRequest:
    """Send a request that must not be repeated; after its reply and its deadline, send it again."""
    for seconds in _SHORT:
        request = kit.request(of=of, epoch=2, idempotent=False, complete_in=seconds)
        await kit.desk.ask([request], lives_on=True)
        if (await kit.answered(request, outcome=None)).outcome not in _NOT_ENDED:
            break
    await kit.answered(request, outcome=outcome)
    await asyncio.sleep(_seconds_left(request) + _A_LITTLE)
    await kit.desk.ask([request], lives_on=True)
    return request


async def _ended_late(kit: Kit, *, idempotent: bool) -> AgentRequest:
    for seconds in _HELD_UP:
        async with kit.held_up():
            late = kit.request(idempotent=idempotent, complete_in=seconds)
            await kit.desk.ask([late])
            begun = await kit.is_taken() and _seconds_left(late) > seconds / 2
            await asyncio.sleep(_seconds_left(late) + _A_LITTLE)
            outcomes = {reply.outcome for reply in kit.desk.heard(late)}
            if ReplyOutcome.REFUSED in outcomes:
                raise CheckFailedError("it is refused for good while --hold holds the service up")
            if outcomes - _NOT_ENDED:
                raise CommandFailedError("--hold holds nothing up: the Agent replied while it ran")
            if not idempotent and begun and await kit.desk.until_gone([late.message_id], _soon()):
                raise NotSeenError(_GIVES_UP)
        if begun:
            return late
    raise CheckFailedError(f"the Agent did not take a request within {_HELD_UP[-1] / 2:g} s")


async def _gave_up(late: AgentRequest, kit: Kit) -> bool:
    """Return whether it gave up at the last moment of `--hold`: it settled, and nothing was done."""
    if not await kit.settled([late.message_id]):
        return False
    if await kit.desk.until(lambda: bool(kit.desk.heard(late)), SILENCE):
        return kit.desk.heard(late)[-1].outcome in _NOT_ENDED
    return kit.options.effects is not None and bool(await kit.without_effect([late]))


def _soon() -> Callable[[], float]:
    end = asyncio.get_running_loop().time() + AFTER_LOCK
    return lambda: end


def _seconds_left(request: AgentRequest) -> float:
    return max(0.0, (request.complete_by - datetime.now(UTC)).total_seconds())
