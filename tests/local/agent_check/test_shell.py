"""The commands of the user: what they print is read, or else they have failed."""

from __future__ import annotations

import sys
from unittest.mock import Mock

import pytest

from local.agent_check.shell import count_effects, holding
from local.agent_check.verdicts import CommandFailedError


async def test_effects_of_one_key_in_two_lines_add_up() -> None:
    """Two processes with a ledger each are two effects."""
    counts = await count_effects("printf 't-1.3f9a0c27/payment/do 1\\nt-1.3f9a0c27/payment/do 1\\n'")
    assert counts["t-1.3f9a0c27/payment/do"] == 2


@pytest.mark.parametrize("line", ["t/payment/do -1", "t/payment/do 1_0", "0x1 t/payment/do"])
async def test_what_is_no_count_is_refused(line: str) -> None:
    """A count is a number from 0 on, in digits."""
    with pytest.raises(CommandFailedError, match="a count"):
        await count_effects(f"echo '{line}'")


async def test_first_line_may_be_long() -> None:
    """Longer than what is read at once."""
    async with holding(f"{sys.executable} -c \"print('x' * 200_000, flush=True); input()\"", Mock()):
        pass


async def test_what_is_no_line_does_not_hold() -> None:
    """It ended before its line did."""
    with pytest.raises(CommandFailedError, match="printed no line"):
        async with holding("printf held", Mock()):
            pass
