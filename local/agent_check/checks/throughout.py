"""What holds for all that the Agent did while the other checks ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError, NotSeenError


async def replies_echo_their_requests(kit: Kit) -> None:
    """Every reply repeats its request's task, step, direction, epoch, start id and kind (The reply)."""
    _none_of(kit.desk.not_echoed)
    _some_reply(kit)


async def replies_fit_the_schema(kit: Kit) -> None:
    """Every reply is strict JSON that fits the schema, in a data section (The reply)."""
    _none_of(kit.desk.misfits)
    _some_reply(kit)


async def it_stays_up(kit: Kit) -> None:
    """No process of the Agent ended that the kit had not ended."""
    kit.agent.see_that_it_runs()
    _none_of(kit.agent.ended)


def _none_of(faults: Sequence[str]) -> None:
    if faults:
        counted = Counter(faults).items()
        raise CheckFailedError(
            "; ".join(f"{fault} ({times} times)" if times > 1 else fault for fault, times in counted)
        )


def _some_reply(kit: Kit) -> None:
    if not kit.desk.heard_last:
        raise NotSeenError("no request was answered")
