"""The broker is killed, and comes back: the Agent does, too, with all its strength."""

from __future__ import annotations

import asyncio

from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError

_SOME = 40
#: Seconds in which an Agent finds a broker that is back.
_BACK_WITHIN = 60.0
#: After the outage, the best of some bursts may take so many times as long as before, and so many seconds.
_BURSTS = 3
_TIMES = 3
_MORE = 1.0


async def the_broker_killed_and_back(kit: Kit) -> None:
    """Requests that waited for the broker are answered, and later ones as fast as before (rule 5)."""
    broker = kit.own_broker()
    async with kit.stage:
        before = min([await _burst(kit) for _ in range(_BURSTS)])
        waiting = [kit.request() for _ in range(_SOME)]
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
            f"{_SOME} requests at once took {before:.1f} s before the outage, and after it {after:.1f} s"
        )


async def _burst(kit: Kit) -> float:
    now = asyncio.get_running_loop().time
    requests = [kit.request() for _ in range(_SOME)]
    begun = now()
    await kit.desk.ask(requests)
    await asyncio.gather(*(kit.answered(each) for each in requests))
    return now() - begun
