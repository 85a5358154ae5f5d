"""What holds for all that the Agent did while the other checks ran."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from local.agent_check.kit import Kit
from local.agent_check.verdicts import CheckFailedError


async def replies_echo_their_requests(kit: Kit) -> None:
    """Every reply repeats its request's schema version, task, step, epoch and token."""
    _none_of(kit.desk.not_echoed)


async def replies_fit_the_schema(kit: Kit) -> None:
    """Every reply is strict JSON that fits the schema, in a data section."""
    _none_of(kit.desk.misfits)


async def it_stays_up(kit: Kit) -> None:
    """No process of the Agent ended that the kit had not ended."""
    _none_of(kit.agent.ended)


def _none_of(faults: Sequence[str]) -> None:
    if faults:
        raise CheckFailedError("; ".join(f"{fault} ({times} x)" for fault, times in Counter(faults).items()))
