"""The check of effects sees what was done again under another key: that of another birth."""

from __future__ import annotations

from typing import Any

from tests.simulation.checks.effects import one_effect
from tests.simulation.remotes.ledger import RemoteCall, RemoteLedger


def _seen(*births: str) -> list[str]:
    """Have a payment be made under each birth, of which the order's row has the first; give what is found."""
    ledger = RemoteLedger()
    for birth in births:
        call = RemoteCall("payment", f"o-1.{birth}/payment/do", 0.0)
        ledger.calls.append(call)
        ledger.carry_out(call, 0.0)
    evidence: Any = type("Evidence", (), {"ledger": ledger, "births": {"o-1": births[0]}})
    return [violation.what for violation in one_effect(evidence)]


def test_payments_under_five_births_are_five_effects() -> None:
    """Each key is a service's own, and so each is paid."""
    assert _seen("b1", "b2", "b3", "b4", "b5") == [
        "payment was done 5 times",
        *(
            f"o-1.{birth}/payment/do was called, and its task's birth is b1"
            for birth in ("b2", "b3", "b4", "b5")
        ),
    ]


def test_call_that_is_repeated_is_one_effect() -> None:
    """It has the same key."""
    assert _seen("b1", "b1") == []
