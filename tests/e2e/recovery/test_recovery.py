"""A lost task is found by its complete-by time, and run again in the next epoch."""

from __future__ import annotations

from datetime import datetime

import pytest
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from local.platform import PartName
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
