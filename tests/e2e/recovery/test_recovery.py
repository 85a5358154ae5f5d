"""Tasks are recovered, undone, or resubmitted by an operator."""

from __future__ import annotations

import json

import pytest
import pytest_asyncio

from tests.e2e.caller import ORDER
from tests.e2e.recovery.bench import Bench, ends, step
from tests.e2e.recovery.remote import Behaviour

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def _submitted(bench: Bench) -> None:
    """Submit the task that times out often before the other tests."""
    bench.remote.script("late/payment/do", Behaviour.HANGS)
    await bench.submit("late", "orders", ORDER)


async def test_hanging_agent_is_recovered_in_the_next_epoch(bench: Bench) -> None:
    """The service did the work and never answered: called again with the same key, it does it once."""
    bench.remote.script("hanging/b/do", Behaviour.FORGETS, Behaviour.ANSWERS)
    await bench.submit("hanging")
    task = await bench.until_state("hanging", "Processed")
    assert (task["epoch"], task["failure_count"], ends(task)) == (2, 1, ["recovered"])
    assert len(step(task, "b")["do"]["attempts"]) == 2
    assert bench.remote.called("hanging/b/do") == 2
    assert bench.remote.effects("hanging") == ["a/do", "b/do", "c/do"]


async def test_task_whose_durable_instance_is_purged_is_recovered(bench: Bench) -> None:
    """Deleting a run from outside only delays the task."""
    bench.remote.script("purged/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
    await bench.submit("purged")
    await bench.until_called("purged/b/do")
    instance = "/runtime/webhooks/durabletask/instances/purged.1.1"
    for method, url in (("POST", f"{instance}/terminate?reason=test"), ("DELETE", instance)):
        async with bench.session.request(method, url) as answer:
            assert answer.ok, await answer.text()
    task = await bench.until_state("purged", "Processed")
    assert ends(task) == ["recovered"]
    assert bench.remote.called("purged/a/do") == 1


async def test_late_do_after_the_undo_is_refused_by_the_tombstone(bench: Bench) -> None:
    """A delayed payment arrives after its refund: no money is taken."""
    task = await bench.until_state("late", "Compensated")
    assert ends(task)[-1] == "exhausted"
    payment = json.dumps({"customer": "C-1042", "amount": "9.80", "currency": "EUR"}).encode()
    assert await bench.remote.deliver("PUT", f"late.{task['order']['run_id']}", payment) == 410
