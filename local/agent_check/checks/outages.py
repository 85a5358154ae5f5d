"""The checks of crashes and deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome
from local.agent_check.commands import CommandFailedError
from local.agent_check.kit import AFTER_LOCK, SILENCE, CheckFailedError, Kit, NotSeenError

_SOME = 20
#: Seconds until the Agent hears that its reply was taken: enough to kill it before.
_MUCH_LATER = 30.0
#: Seconds beyond the lock, to see that it was renewed.
_BEYOND = 2.0
_BURST = 40
#: Seconds in which an Agent finds a broker that is back.
_BACK_WITHIN = 60.0
#: The best of `_BURSTS` bursts after the outage takes at most `_TIMES` times the earlier best, plus `_MORE`.
_BURSTS = 3
_TIMES = 3
_MORE = 1.0
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


async def a_lock_is_renewed(kit: Kit) -> None:
    """A request that takes longer than its lock stays with the process that took it (rule 5)."""
    broker = kit.own_broker()
    before = await broker.figure(kit.desk.queue, "locks_expired")
    seconds = kit.options.lock + _BEYOND
    async with kit.stage, broker.slow_to_thank(seconds):
        request = kit.request()
        await kit.ask(request)
        await asyncio.sleep(seconds)
    if await broker.figure(kit.desk.queue, "locks_expired") > before:
        raise CheckFailedError("its lock ran out, and it was delivered again while the Agent still had it")


async def killed_while_it_works(kit: Kit) -> None:
    """20 requests that are under way are answered within the lock and 5 s, each with one effect (rule 5)."""
    async with kit.stage:
        requests = await _killed_among(kit, idempotent=True)
    await asyncio.gather(*(kit.answered_in_time(request) for request in requests))
    await kit.effects(*requests)


async def killed_before_it_settled(kit: Kit) -> None:
    """A request is settled after its reply: killed in between, the Agent replies again (rule 5)."""
    request = await _killed_at_its_reply(kit, idempotent=True)
    await kit.answered_in_time(request, times=2)
    await kit.effects(request)


async def what_is_sent_once_killed_at_work(kit: Kit) -> None:
    """Killed at work, what is sent once has no second effect, and is done when a new start asks (rule 7)."""
    async with kit.stage:
        if kit.options.hold is None:
            requests = await _killed_among(kit, idempotent=False)
        else:
            requests = [await _killed_held_up(kit)]
    if not await kit.settled(each.message_id for each in requests):
        raise CheckFailedError(
            "a request whose outcome is unknown is not completed: it comes again and again"
        )
    told = [each for each in requests if kit.desk.replies(each)]
    known = [each for each in told if kit.desk.replies(each)[-1].outcome != ReplyOutcome.UNKNOWN]
    await asyncio.gather(*(kit.answered(each) for each in known))
    await kit.effects(*requests, least=0)
    unknown = await kit.without_effect(each for each in requests if each not in known)
    again = [kit.request(of=each, epoch=2, idempotent=False) for each in unknown]
    await kit.desk.ask(again)
    lacking = "no reply to a new start, which is sent after the step was found not to be done"
    await asyncio.gather(*(kit.answered(each, lacking=lacking) for each in again))
    await kit.effects(*again)


async def what_is_sent_once_killed_at_its_reply(kit: Kit) -> None:
    """A step that must not be repeated is done once; after a crash the reply is sent again (rule 7)."""
    request = await _killed_at_its_reply(kit, idempotent=False)
    await kit.answered_in_time(request, times=2)
    await kit.effects(request)


async def the_ledger_outlives_the_agent(kit: Kit) -> None:
    """After a crash, a repeated do or undo has no new effect and the same answer (rule 1)."""
    before, undone = kit.request(), kit.request(Direction.UNDO)
    async with kit.stage:
        await kit.desk.ask([before, undone])
        first = await kit.answered(before)
        await kit.answered(undone)
        await kit.kill()
        await kit.start_again()
    again, late = kit.request(of=before, epoch=2), kit.request(of=undone, epoch=2)
    await kit.desk.ask([again, late])
    if (await kit.answered(again)).result != first.result:
        raise CheckFailedError("the key has another result than before the crash")
    await kit.answered(late, outcome="refused")
    await kit.effects(before)
    await kit.effects(late, least=0, most=0)


async def the_broker_killed_and_back(kit: Kit) -> None:
    """Requests that waited for the broker are answered; later ones are as fast as the first (rule 5)."""
    broker = kit.own_broker()
    async with kit.stage:
        before = min([await _burst(kit) for _ in range(_BURSTS)])
        waiting = [kit.request() for _ in range(_BURST)]
        await kit.desk.ask(waiting)
        await broker.kill()
        await broker.start()
        await asyncio.gather(*(kit.answered(each, within=_BACK_WITHIN) for each in waiting))
        await kit.effects(*waiting)
        most = before * _TIMES + _MORE
        for _ in range(_BURSTS):
            if (after := await _burst(kit)) <= most:
                return
        raise CheckFailedError(
            f"{_BURST} requests at once took {before:.1f} s before the outage, and after it {after:.1f} s"
        )


async def _killed_among(kit: Kit, *, idempotent: bool) -> list[AgentRequest]:
    requests = [kit.request(idempotent=idempotent) for _ in range(_SOME)]
    await kit.desk.ask(requests)
    seconds = kit.timeout.seconds
    if not await kit.desk.until(lambda: any(map(kit.desk.replies, requests)), seconds):
        raise CheckFailedError(f"none of {_SOME} requests was answered within {seconds:g} s")
    await kit.kill()
    await kit.start_again()
    return requests


async def _killed_at_its_reply(kit: Kit, *, idempotent: bool) -> AgentRequest:
    async with kit.stage:
        await kit.reaches("active", lambda requests: requests == 0)
        async with kit.own_broker().slow_to_thank(_MUCH_LATER):
            request = kit.request(idempotent=idempotent)
            await kit.ask(request)
            settled = await kit.desk.is_settled([request.message_id])
            await kit.kill()
        await kit.start_again()
    if settled:
        raise CheckFailedError("the request was settled before the Agent could know that its reply was sent")
    return request


async def _killed_held_up(kit: Kit) -> AgentRequest:
    async with kit.held_up():
        request = kit.request(idempotent=False)
        await kit.desk.ask([request])
        if not await kit.is_taken():
            raise CheckFailedError("the Agent did not take a request")
        await kit.kill()
    await kit.start_again()
    return request


async def _burst(kit: Kit) -> float:
    now = asyncio.get_running_loop().time
    requests = [kit.request() for _ in range(_BURST)]
    begun = now()
    await kit.desk.ask(requests)
    await asyncio.gather(*(kit.answered(each) for each in requests))
    return now() - begun


async def taken_after_complete_by(kit: Kit) -> None:
    """A do or undo that is taken after its deadline has no effect and the reply `not_taken` (rule 4)."""
    done = kit.request()
    await kit.ask(done)
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


async def a_recorded_outcome_is_sent_late(kit: Kit) -> None:
    """A known outcome is sent again after the deadline if the step must not be repeated (rule 7)."""
    done = await _again_after_its_deadline(kit, ReplyOutcome.DONE)
    await kit.answered(done, times=2, lacking="no reply to the request that came after its complete-by")
    await kit.effects(done)


async def a_recorded_refusal_is_sent_late(kit: Kit) -> None:
    """A known refusal is sent again after the deadline, and is never `not_taken` (rule 7)."""
    undo = kit.request(Direction.UNDO)
    await kit.ask(undo)
    refused = await _again_after_its_deadline(kit, ReplyOutcome.REFUSED, of=undo)
    await kit.answered(refused, times=2, outcome=ReplyOutcome.REFUSED)


async def what_was_not_taken_is_never_begun(kit: Kit) -> None:
    """A start that was not taken is not begun when it arrives again (rule 8)."""
    late = kit.request(complete_in=-1, idempotent=False)
    for times in (1, 2):
        await kit.ask(late, lives_on=True, times=times, outcome=ReplyOutcome.NOT_TAKEN)
    await kit.effects(late, least=0, most=0)


async def a_timeout_is_no_refusal(kit: Kit) -> None:
    """While the service is slower than timeouts are, it is tried again: it is not refused (rule 3)."""
    async with kit.stage:
        async with kit.held_up():
            request = kit.request()
            await kit.desk.ask([request])
            await kit.is_taken()
            await kit.desk.until(lambda: bool(kit.desk.replies(request)), _BEYOND_TIMEOUTS)
        await kit.answered(request)
        await kit.effects(request)


async def ended_after_complete_by(kit: Kit) -> None:
    """Work that ends after its deadline is not replied to, where the step may be repeated (rule 4)."""
    async with kit.stage:
        late = await _ended_late(kit, idempotent=True)
        await kit.completed(late)
        await kit.desk.until(lambda: bool(kit.desk.replies(late)), SILENCE)
        outcomes = {reply.outcome for reply in kit.desk.replies(late)}
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
        if (await kit.ask(request, lives_on=True, outcome=None)).outcome not in _NOT_ENDED:
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
            outcomes = {reply.outcome for reply in kit.desk.replies(late)}
            if ReplyOutcome.REFUSED in outcomes:
                raise CheckFailedError("it is refused for good while --hold holds the service up")
            if outcomes - _NOT_ENDED:
                raise CommandFailedError("--hold holds nothing up: the Agent replied while it ran")
            if not idempotent and begun and await kit.desk.until_settled([late.message_id], _soon()):
                raise NotSeenError(_GIVES_UP)
        if begun:
            return late
    raise CheckFailedError(f"the Agent did not take a request within {_HELD_UP[-1] / 2:g} s")


async def _gave_up(late: AgentRequest, kit: Kit) -> bool:
    """Return whether it gave up at the last moment of `--hold`: it settled, and nothing was done."""
    if not await kit.settled([late.message_id]):
        return False
    if await kit.desk.until(lambda: bool(kit.desk.replies(late)), SILENCE):
        return kit.desk.replies(late)[-1].outcome in _NOT_ENDED
    return kit.options.effects is not None and bool(await kit.without_effect([late]))


def _soon() -> Callable[[], float]:
    end = asyncio.get_running_loop().time() + AFTER_LOCK
    return lambda: end


def _seconds_left(request: AgentRequest) -> float:
    return max(0.0, (request.complete_by - datetime.now(UTC)).total_seconds())
