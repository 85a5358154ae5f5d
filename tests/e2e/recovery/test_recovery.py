"""Tasks are recovered, undone, or resubmitted by an operator."""

from __future__ import annotations

import asyncio
import json
from datetime import datetime

import pytest
import pytest_asyncio
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.platform import PartName
from tests.e2e.caller import ORDER
from tests.e2e.recovery.bench import Bench, events, step
from tests.e2e.recovery.remote import Behaviour
from tests.fakes.workflows import submission

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="session")]


async def test_hanging_agent_is_recovered_in_the_next_epoch(bench: Bench) -> None:
    """The service did the work and never answered: called again with the same key, it does it once."""
    bench.remote.script("hanging/b/do", Behaviour.FORGETS, Behaviour.ANSWERS)
    await bench.submit("hanging")
    task = await bench.until_state("hanging", "Processed")
    assert (task["epoch"], task["failure_count"]) == (2, 1)
    assert events(task) == ["submitted", "recovered"]
    assert [step(task, name)["epoch"] for name in ("a", "b", "c")] == [1, 2, 2]
    assert bench.remote.called("hanging/b/do") == 2
    assert bench.remote.effects("hanging") == ["a/do", "b/do", "c/do"]


async def test_killed_scheduler_is_resumed_after_the_completed_steps(bench: Bench) -> None:
    """`kill -9` during step b: a is not called again, and each effect happens once."""
    bench.remote.script("killed/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
    await bench.submit("killed")
    await bench.until_called("killed/b/do")
    await bench.platform.kill(PartName.HOST)
    await bench.platform.start(PartName.HOST)
    task = await bench.until_state("killed", "Processed")
    assert bench.remote.called("killed/a/do") == 1
    assert bench.remote.effects("killed") == ["a/do", "b/do", "c/do"]
    assert task["failure_count"] == task["epoch"] - 1


async def test_service_that_comes_back_after_an_extended_wait_is_used(bench: Bench) -> None:
    """Down for longer than the threshold's recoveries: the task waits, and is then `Processed`."""
    bench.remote.script("outage/b/do", Behaviour.IS_DOWN)
    await bench.submit("outage")
    waiting = await bench.until("outage", lambda task: task["not_before"] is not None)
    assert waiting["failure_count"] == 2
    bench.remote.script("outage/b/do", Behaviour.ANSWERS)
    task = await bench.until_state("outage", "Processed")
    first = next(
        call.at
        for call in bench.remote.calls
        if call.effect == "outage/b/do" and call.at > datetime.fromisoformat(waiting["updated_at"])
    )
    assert first >= datetime.fromisoformat(waiting["not_before"])
    assert events(task) == ["submitted", "recovered", "recovered"]


async def test_task_whose_durable_instance_is_purged_is_recovered(bench: Bench) -> None:
    """Deleting a Scheduler from outside only delays the task."""
    bench.remote.script("purged/b/do", Behaviour.HANGS, Behaviour.ANSWERS)
    await bench.submit("purged")
    await bench.until_called("purged/b/do")
    instance = "/runtime/webhooks/durabletask/instances/purged.1"
    for method, url in (("POST", f"{instance}/terminate?reason=test"), ("DELETE", instance)):
        async with bench.session.request(method, url) as answer:
            assert answer.ok, await answer.text()
    task = await bench.until_state("purged", "Processed")
    assert events(task) == ["submitted", "recovered"]
    assert bench.remote.called("purged/a/do") == 1


async def test_submission_delivered_three_times_is_one_task(bench: Bench) -> None:
    """Even if the queue's duplicate detection misses the duplicates."""
    message = submission().model_copy(update={"task_id": "thrice", "workflow": "undone"})
    body = message.model_dump_json()
    connection = bench.platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender("submissions") as sender,
    ):
        for number in range(3):
            await sender.send_messages(ServiceBusMessage(body, message_id=f"thrice-{number}"))
    task = await bench.until_state("thrice", "Processed")
    await bench.until_empty("submissions")
    assert events(task) == ["submitted"]
    assert [call.effect for call in bench.remote.calls if call.effect.startswith("thrice/")] == [
        "thrice/a/do",
        "thrice/b/do",
        "thrice/c/do",
    ]


async def _in_error(bench: Bench, task: str) -> None:
    bench.remote.script(f"{task}/b/do", Behaviour.REFUSES, Behaviour.ANSWERS)
    await bench.submit(task, "held")
    found = await bench.until_state(task, "Error")
    assert found["last_error"] == "b: b answered 422"


async def test_resubmitted_task_resumes_at_the_failed_step(bench: Bench) -> None:
    """The operator fixes the service and resubmits: completed steps are not repeated."""
    await _in_error(bench, "fixed")
    assert await bench.act("fixed", "resubmit") == 202
    task = await bench.until_state("fixed", "Processed")
    assert bench.remote.called("fixed/a/do") == 1
    assert bench.remote.effects("fixed") == ["a/do", "b/do", "c/do"]
    assert events(task) == ["submitted", "resubmitted"]
    assert task["history"][-1]["reason"] == "the service is fixed"
    assert [each["state"] for each in task["history"][-1]["steps"]] == ["Completed", "Failed", "NotStarted"]


async def test_operator_has_a_held_task_undone(bench: Bench) -> None:
    """Also the step that was refused, whose earlier attempts may have had an effect."""
    await _in_error(bench, "cancelled")
    assert await bench.act("cancelled", "undo") == 202
    task = await bench.until_state("cancelled", "Compensated")
    assert events(task) == ["submitted", "undo requested"]
    assert bench.remote.effects("cancelled") == ["a/do", "b/undo", "a/undo"]


async def test_of_two_operators_at_once_one_wins(bench: Bench) -> None:
    """The other gets a 409, and one epoch is opened."""
    await _in_error(bench, "contested")
    answers = await asyncio.gather(bench.act("contested", "resubmit"), bench.act("contested", "undo"))
    assert sorted(answers) == [202, 409]
    task = await bench.until("contested", lambda found: found["state"] in {"Processed", "Compensated"})
    assert task["epoch"] == 2


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def _submitted(bench: Bench) -> None:
    """Submit the tasks of all tests together, so that their steps time out at the same time."""
    for task, resource in (("down", "undone"), ("down-held", "held")):
        bench.remote.script(f"{task}/b/do", Behaviour.IS_DOWN)
        await bench.submit(task, resource)
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
    bench.remote.script("stubborn/c/do", Behaviour.REFUSES)
    bench.remote.script("stubborn/b/undo", Behaviour.HANGS, Behaviour.FORGETS, Behaviour.ANSWERS)
    await bench.submit("stubborn")
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
