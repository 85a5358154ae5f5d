"""The Agent is killed with SIGKILL, and started again: nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio

from functions.pattern.agent_messages import AgentRequest
from functions.pattern.states import Direction
from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError

_SOME = 20
#: Seconds until the Agent hears that its reply was taken: enough to kill it before.
_MUCH_LATER = 30.0
#: Seconds beyond the lock, to see that it was renewed.
_BEYOND = 2.0


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
    """Killed at work, what is sent once has no second effect, and is done when a new token asks (rule 7)."""
    async with kit.stage:
        if kit.options.hold is None:
            requests = await _killed_among(kit, idempotent=False)
        else:
            requests = [await _killed_held_up(kit)]
    if not await kit.settled(*requests):
        raise CheckFailedError(
            "a request whose outcome is unknown is not completed: it comes again and again"
        )
    await asyncio.gather(*(kit.answered(each) for each in requests if kit.desk.heard(each)))
    await kit.effects(*requests, least=0)
    unknown = await kit.without_effect(each for each in requests if not kit.desk.heard(each))
    again = [kit.request(of=each, epoch=2, idempotent=False) for each in unknown]
    await kit.desk.ask(again)
    lacking = "no reply to a new token, which is sent where it is found out that it was not done"
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
    await kit.answered(late, outcome="failed")
    await kit.effects(before)
    await kit.effects(late, least=0, most=0)


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
