"""Bad messages, rows, queues and tasks, of each kind that there is, harm none of fifty healthy orders."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from azure.data.tables import TableClient, TableServiceClient
from azure.servicebus import ServiceBusMessage
from azure.servicebus.aio import ServiceBusClient

from functions.messages.queues import living_queue
from tests.e2e.caller import ORDER, rows
from tests.e2e.recovery.bench import PATIENCE, Bench, running, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.recovery.workflows import CARGO

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

HEALTHY: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{f"healthy-{number}": ("undone", CARGO) for number in range(25)},
    **{f"sound-{number}": ("orders", ORDER) for number in range(25)},
}
#: Tasks that are held, each for another fault of a service or a definition, by what is said of it.
BAD = {
    "refused": (Behaviour.SHOUTS, "b: b answered 422: \U0001f600"),
    "flooded": (Behaviour.FLOODS, "b: it was done, but b answered more than"),
    "babbled": (Behaviour.BABBLES, "b: it was done, but b answered what can't be used"),
    "hanging": (Behaviour.HANGS, "b: still overdue after"),
    "broken": (Behaviour.ANSWERS, "a: RuntimeError: \U0001f600"),
}
#: A longer reason would not fit into a row beside others.
_MOST_REASON_BYTES = 2048
#: Tasks whose rows are damaged while a step of theirs is running.
DAMAGED = ("damaged-task", "damaged-step")

#: Queues of ours but that of submissions.
OTHER_QUEUES = ("scheduler-requests", "agent-payment-requests", "agent-replies", "operator-alerts")

#: What nobody can read, whatever it was meant to be.
UNREADABLE = (b"{", b'{"token": 1}', b"\xff" * 99)

#: The ids of the submissions that are bad; what is sent again has another.
_BAD_IDS = [f"bad-{number}" for number in range(5)]

#: The key of an index row that every sweep reads first.
OVERDUE = "!due|20200101T000000.000000Z"
#: What a rollback leaves, or damage.
UNKNOWN = {"ProcessState": "Parked by a later version"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform of its own, whose Supervisor sweeps every second: its rows are damaged."""
    settings = {
        "SUPERVISOR_SCHEDULE": "* * * * * *",
        "REPLY_QUEUES": "notices-demo,notices-gone",
        "STEP_SECONDS": "undone.a=60,undone.b=60,undone.c=60",
    }
    async with running(tmp_path_factory.mktemp("neighbours"), settings) as bench:
        await _submit_all(bench)
        yield bench


async def _submit_all(bench: Bench) -> None:
    """Damage rows of tasks under way, then send what is bad, and what is healthy, all at once."""
    for task in DAMAGED:
        bench.remote.script(f"{task}/b/do", Behaviour.WAITS)
        await bench.submit(task)
    for task in DAMAGED:
        await bench.until_called(f"{task}/b/do")
    with _tasks(bench) as table:
        _damage(table)
    await _send(bench, "submissions", *_bad_messages())
    for queue in OTHER_QUEUES:
        await _send(bench, queue, *map(ServiceBusMessage, UNREADABLE))
    for task, (behaviour, _) in BAD.items():
        bench.remote.script(f"{task}/b/do", behaviour)
        await bench.submit(task, "broken" if task == "broken" else "held")
    await bench.submit("unheard", content={**CARGO, "reply_to": "notices-gone"})
    for task, (resource, content) in HEALTHY.items():
        await bench.submit(task, resource, {**content, "reply_to": "notices-demo"})


async def test_bad_neighbours_harm_nobody(bench: Bench) -> None:
    """The healthy ones are processed at the first attempt, with no alert of theirs."""
    for task in ("unheard", *HEALTHY):
        found = await bench.until(task, lambda seen: len(seen["notices"]) == 2 or seen["id"] == "unheard")
        assert found["id"] == "unheard" or found["state"] == "Processed"
        found = await bench.until_state(task, "Processed")
        assert (found["failure_count"], found["epoch"], found["lost_messages"]) == (0, 1, [])
    assert [alert for task in HEALTHY for alert in bench.remote.alerts_about(task)] == []


async def test_bad_tasks_are_held_each_for_its_own_reason(bench: Bench) -> None:
    """However long what was said is: it is cut, recorded and alerted."""
    for task, (_, reason) in BAD.items():
        found = await bench.until_state(task, "Error")
        assert found["last_error"].startswith(reason)
        assert len(found["last_error"].encode()) < _MOST_REASON_BYTES
        await until(lambda: len(bench.remote.alerts_about(task)) == 1)  # noqa: B023 - called here


async def test_each_bad_one_is_named_once(bench: Bench) -> None:
    """Rows by one alert or a few, however many sweeps meet them; messages are kept, each with its reason."""
    await until(lambda: {"damaged-task|task", "damaged-step|step|00"} <= _named(bench))
    assert (await _next_sweep(bench))["unreadable"] >= 3
    await bench.until_empty("operator-alerts")
    told = len(_unreadable(bench))
    await _next_sweep(bench)
    assert len(_unreadable(bench)) == told
    async with asyncio.timeout(PATIENCE):
        while await _kept_for(bench, "submitted_at", "JSON") != [3, 1]:
            await asyncio.sleep(0.1)


async def test_every_message_that_nobody_can_read_is_kept(bench: Bench) -> None:
    """Of each queue; alerts only after they were delivered as often as they can be."""
    wanted = dict.fromkeys(OTHER_QUEUES, len(UNREADABLE))
    found: Counter[str] = Counter()
    async with asyncio.timeout(PATIENCE):
        while found != wanted:
            await asyncio.sleep(0.2)
            queues = [living_queue(row["Queue"]) for row in await _rejected(bench)]
            found = Counter(queue for queue in queues if queue in OTHER_QUEUES)


async def _rejected(bench: Bench) -> list[dict[str, Any]]:
    """Read the rejected messages."""
    return await asyncio.to_thread(rows, bench.platform, "Rejected")


async def _kept_for(bench: Bench, *faults: str) -> list[int]:
    """Count the bad submissions that are kept, by what is said of them."""
    reasons = [row["Reason"] for row in await _rejected(bench) if row["MessageID"] in _BAD_IDS]
    return [sum(fault in reason for reason in reasons) for fault in faults]


async def test_lists_show_what_can_be_read(bench: Bench) -> None:
    """And name the rest."""
    async with bench.session.get("/api/ops/tasks", params={"prefix": "damaged"}) as answer:
        assert answer.status == 200
        page = await answer.json()
    assert {row["key"] for row in page["unreadable"]} == {"damaged-task|task", "damaged-step|step|00"}
    assert page["tasks"] == []
    async with bench.session.get("/api/ops/tasks/damaged-task") as answer:
        assert answer.status == 500
        assert "damaged-task|task" in (await answer.json())["detail"]


async def test_rejected_message_is_sent_again(bench: Bench) -> None:
    """As it was: here it is rejected again, under its new id."""
    async with asyncio.timeout(PATIENCE):
        while await _kept_for(bench, "JSON") != [1]:  # this test may be the first
            await asyncio.sleep(0.1)
    async with bench.session.get("/api/ops/rejected", params={"queue": "submissions"}) as answer:
        kept = next(each for each in (await answer.json())["messages"] if each["message_id"] == _BAD_IDS[0])
    body, headers = {"reason": "to see it again"}, {"X-Requested-With": "bench"}
    address = f"/api/ops/rejected/{kept['id']}/resend"
    async with bench.session.post(address, json=body, headers=headers) as answer:
        assert answer.status == 202
        assert (await answer.json())["resent_by"] == "operator"
    alike = {"Queue": kept["queue"], "Reason": kept["reason"]}
    async with asyncio.timeout(PATIENCE):
        while len({row["MessageID"] for row in await _rejected(bench) if alike.items() <= row.items()}) < 2:
            await asyncio.sleep(0.1)


@contextmanager
def _tasks(bench: Bench) -> Iterator[TableClient]:
    with TableServiceClient.from_connection_string(bench.platform.addresses.storage_connection) as service:
        yield service.get_table_client("Tasks")


def _damage(table: TableClient) -> None:
    """Damage a row of each kind, and add rows that nobody can read."""
    every = {row["RowKey"]: row for row in table.list_entities()}
    damaged = {"damaged-task|task": UNKNOWN, "damaged-step|step|00": {"State": "Sleeping"}}
    for key, columns in damaged.items():
        partition = every[key]["PartitionKey"]
        table.update_entity({"PartitionKey": partition, "RowKey": key, **columns})
        index = next(row for row in every if row.startswith("!due|") and row.endswith(key.split("|")[0]))
        table.create_entity({**every[index], "RowKey": f"{OVERDUE}|{key.split('|')[0]}"})
    for key in (f"{OVERDUE}|garbage", "!send|1notices-demo|20200101T000000.000000Z|garbage"):
        for partition in ("000", "001"):
            row = {"PartitionKey": partition, "RowKey": key, "OrderID": "garbage", "Announcement": "{"}
            table.create_entity(row)


def _bad_messages() -> list[ServiceBusMessage]:
    """Make messages that can't be understood, and one of a task that can't be read."""
    order: dict[str, Any] = {
        "task_id": "damaged-task",
        "workflow": "undone",
        "payload": CARGO,
        "submitter": "function-key",
        "submitted_at": "2026-11-22T12:00:00Z",
    }
    times = ("0001-01-01T00:00:00+14:00", "2026-11-22T12:00:00", "1969-12-31T23:59:59Z")
    bodies = [b"{", json.dumps(order).encode()]
    bodies += [json.dumps({**order, "task_id": "timeless", "submitted_at": time}).encode() for time in times]
    return [ServiceBusMessage(body, message_id=known) for known, body in zip(_BAD_IDS, bodies, strict=True)]


async def _send(bench: Bench, queue: str, *messages: ServiceBusMessage) -> None:
    connection = bench.platform.addresses.service_bus_connection
    async with (
        ServiceBusClient.from_connection_string(connection) as client,
        client.get_queue_sender(queue) as sender,
    ):
        await sender.send_messages(list(messages))


def _unreadable(bench: Bench) -> list[dict[str, Any]]:
    return [alert for alert in bench.remote.alerts if alert["event"] == "rows unreadable"]


def _named(bench: Bench) -> set[str]:
    return {part.partition(" ")[0] for alert in _unreadable(bench) for part in alert["named"].split("; ")}


async def _next_sweep(bench: Bench) -> dict[str, Any]:
    """Wait for the end of a sweep that begins after this, and give its figures."""
    called_at = datetime.now(UTC)
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get("/api/ops/overview") as answer:
                assert answer.status == 200
                sweep: dict[str, Any] | None = (await answer.json())["supervisor"]
            if sweep is not None and datetime.fromisoformat(sweep["started_at"]) > called_at:
                return sweep
            await asyncio.sleep(0.1)
