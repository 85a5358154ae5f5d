"""The Agent, or the broker, is killed and started again: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio

from functions.core.record import Direction
from functions.messaging.agent_messages import AgentRequest, ReplyOutcome
from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError

_SOME = 20
#: Seconds until the Agent hears that its reply was taken: enough to kill it before.
_MUCH_LATER = 30.0
#: Seconds beyond the lock, to see that it was renewed.
_BEYOND = 2.0
_BURST = 40
#: Seconds in which an Agent finds a broker that is back.
_BACK_WITHIN = 60.0
#: After the outage, the best of some bursts may take so many times as long as before, and so many seconds.
_BURSTS = 3
_TIMES = 3
_MORE = 1.0


async def a_lock_is_renewed(kit: Kit) -> None:
    """A request that takes longer than its lock stays with the process that took it (rule 5)."""
    broker = kit.own_broker()
    before = await broker.figure(kit.desk.queue, "locks_expired")
    seconds = kit.options.lock + _BEYOND
    async with kit.stage, broker.slow_to_thank(seconds):
        request = kit.request()
        await kit.desk.ask([request])
        await kit.answered(request)
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
    told = [each for each in requests if kit.desk.heard(each)]
    known = [each for each in told if kit.desk.heard(each)[-1].outcome != ReplyOutcome.UNKNOWN]
    await asyncio.gather(*(kit.answered(each) for each in known))
    await kit.effects(*requests, least=0)
    unknown = await kit.without_effect(each for each in requests if each not in known)
    again = [kit.request(of=each, epoch=2, idempotent=False) for each in unknown]
    await kit.desk.ask(again)
    lacking = "no reply to a new start, which is sent after the step was found not to be done"
    await asyncio.gather(*(kit.answered(each, lacking=lacking) for each in again))
    await kit.effects(*again)


async def what_is_sent_once_killed_at_its_reply(kit: Kit) -> None:
    """What must not be repeated is done only once, and replied to again after a crash (rule 7)."""
    request = await _killed_at_its_reply(kit, idempotent=False)
    await kit.answered_in_time(request, times=2)
    await kit.effects(request)


async def the_ledger_outlives_the_agent(kit: Kit) -> None:
    """What was done, or undone before its do, is known after a crash: no effect, the same answer (rule 1)."""
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
    """Requests that waited for the broker are answered, and later ones as fast as before (rule 5)."""
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
    seconds = kit.patience.seconds
    if not await kit.desk.until(lambda: any(map(kit.desk.heard, requests)), seconds):
        raise CheckFailedError(f"none of {_SOME} requests was answered within {seconds:g} s")
    await kit.kill()
    await kit.start_again()
    return requests


async def _killed_at_its_reply(kit: Kit, *, idempotent: bool) -> AgentRequest:
    async with kit.stage:
        await kit.has_nothing_to_do()  # it would wait for its thanks, too
        async with kit.own_broker().slow_to_thank(_MUCH_LATER):
            request = kit.request(idempotent=idempotent)
            await kit.desk.ask([request])
            await kit.answered(request)
            settled = await kit.desk.is_gone([request.message_id])
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
