"""A task that cannot be completed is undone; one that cannot be undone is held for the operator."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from tests.e2e.caller import ORDER
from tests.e2e.recovery.bench import Bench, events
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def _submitted(bench: Bench) -> None:
    """Submit the tasks of all tests together, so that their steps time out at the same time."""
    for task, resource in (("down", "undone"), ("down-held", "held")):
        bench.remote.script(f"{task}/b/do", Behaviour.IS_DOWN)
        await bench.submit(task, resource)
    bench.remote.script("stubborn/c/do", Behaviour.REFUSES)
    bench.remote.script("stubborn/b/undo", Behaviour.HANGS, Behaviour.FORGETS, Behaviour.ANSWERS)
    await bench.submit("stubborn")
    bench.remote.script("late/payment/do", Behaviour.HANGS)
    async with bench.session.put("/api/orders/late", json=ORDER) as answer:
        assert answer.status == 202


async def test_service_that_stays_down_is_given_up(bench: Bench) -> None:
    """By its remedy the task is undone in reverse order, or held; the operator gets one alert."""
    undone = await bench.until_state("down", "Compensated")
    assert events(undone) == ["submitted", "recovered", "recovered", "exhausted"]
    assert bench.remote.effects("down") == ["a/do", "b/undo", "a/undo"]
    held = await bench.until_state("down-held", "Error")
    assert held["last_error"].startswith("b: still overdue after 2 recoveries (b ")
    assert bench.remote.effects("down-held") == ["a/do"]
    for task in ("down", "down-held"):
        await bench.until_alerted(task)
        assert [alert["epoch"] for alert in bench.remote.alerts_about(task)] == [3]


async def test_undo_that_fails_twice_succeeds_at_the_third_attempt(bench: Bench) -> None:
    """Undo is recovered as do is, also after an extended wait."""
    task = await bench.until_state("stubborn", "Compensated")
    assert events(task) == ["submitted", "refused", "recovered", "recovered"]
    assert task["failure_count"] == 2
    assert bench.remote.called("stubborn/b/undo") == 3
    assert bench.remote.effects("stubborn") == ["a/do", "b/do", "c/undo", "b/undo", "a/undo"]
    assert bench.remote.alerts_about("stubborn") == []


async def test_late_do_after_the_undo_is_refused_by_the_tombstone(bench: Bench) -> None:
    """A delayed payment arrives after its refund: no money is taken."""
    task = await bench.until_state("late", "Compensated")
    assert events(task)[-1] == "exhausted"
    payment = json.dumps({"customer": "C-1042", "amount": "9.80", "currency": "EUR"}).encode()
    assert await bench.remote.deliver("PUT", f"late.{task['birth']}", payment) == 410
