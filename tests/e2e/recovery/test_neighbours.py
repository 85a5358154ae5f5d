"""Bad messages, rows, queues and tasks, of each kind that there is, harm none of fifty healthy orders."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
import pytest_asyncio
from azure.data.tables import TableClient, TableServiceClient
from azure.servicebus import ServiceBusMessage

from functions.messaging.queue_names import live_queue
from tests.e2e.caller import ORDER, rejected, send
from tests.e2e.recovery.bench import PATIENCE, Bench, running, until
from tests.e2e.recovery.remote import Behaviour
from tests.e2e.recovery.workflows import CARGO

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(600)]

_HEALTHY: dict[str, tuple[str, Mapping[str, Any]]] = {
    **{f"healthy-{number}": ("undone", CARGO) for number in range(25)},
    **{f"sound-{number}": ("orders", ORDER) for number in range(25)},
}
#: Tasks that stay in `Error`, each by another fault of a service or a definition, with the reason.
_BAD = {
    "refused": (Behaviour.SHOUTS, "b: b answered 422: \U0001f600"),
    "flooded": (Behaviour.FLOODS, "b: done, but its result is missing (b answered more than"),
    "babbled": (Behaviour.BABBLES, "b: done, but its result is missing (b answered no JSON"),
    "hanging": (Behaviour.HANGS, "b: overdue after 2 recoveries"),
    "broken": (Behaviour.ANSWERS, "a: RuntimeError"),
}
#: A longer reason would not fit into a row beside others.
_MOST_REASON_BYTES = 2048
#: Tasks with corrupt rows, which are damaged while a step of theirs is running.
_DAMAGED = ("damaged-task", "damaged-step")
_CORRUPT_ROWS = {"damaged-task|task": "Facts", "damaged-step|step|a": "Do"}
#: Corrupt rows that each sweep reads first.
_GARBAGE = ("!due|0|garbage", "!send|notices-demo|garbage")

#: All queues of the application but that of submissions, and messages that cannot be read.
_OTHER_QUEUES = ("scheduler-requests", "agent-payment-requests", "agent-replies", "operator-alerts")
_UNREADABLE = (b"{", b'{"token": 1}', b"\xff" * 99)
#: The ids of the submissions that are bad; a copy that is sent again has another.
_BAD_IDS = [f"bad-{number}" for number in range(5)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def bench(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Bench]:
    """Run a platform of its own, whose Supervisor sweeps every second: its rows are damaged."""
    settings = {
        "SUPERVISOR_SCHEDULE": "* * * * * *",
        "REPLY_QUEUES": "notices-demo,notices-gone",
        "STEP_SECONDS": "undone.a=60,undone.b=60,undone.c=60,kept.a=60,kept.c=60",
    }
    async with running(tmp_path_factory.mktemp("neighbours"), settings) as bench:
        await _submit_all(bench)
        yield bench


async def _submit_all(bench: Bench) -> None:
    """Damage rows of tasks under way, then submit what is bad, and what is healthy, all at once."""
    for task in _DAMAGED:
        bench.remote.script(f"{task}/b/do", Behaviour.WAITS)
        await bench.submit(task)
    for task in _DAMAGED:
        await bench.until_called(f"{task}/b/do")
    with TableServiceClient.from_connection_string(bench.platform.addresses.storage_connection) as service:
        _corrupt_rows(service.get_table_client("Tasks"))
    await send(bench.platform, "submissions", *_bad_messages())
    for queue in _OTHER_QUEUES:
        await send(bench.platform, queue, *map(ServiceBusMessage, _UNREADABLE))
    for task, (behaviour, _) in _BAD.items():
        bench.remote.script(f"{task}/b/do", behaviour)
        await bench.submit(task, "broken" if task == "broken" else "kept")
    await bench.submit("unheard", content={**CARGO, "reply_to": "notices-gone"})
    for task, (resource, content) in _HEALTHY.items():
        await bench.submit(task, resource, {**content, "reply_to": "notices-demo"})


async def test_corrupt_rows_harm_no_other_task(bench: Bench) -> None:
    """The healthy ones are processed at the first attempt, with both notices and no alert.

    Each bad task is in `Error` with its own reason, however long its text was, and has one alert.
    """
    for task in ("unheard", *_HEALTHY):
        found = await bench.until_state(task, "Processed")
        assert (found["failure_count"], found["epoch"], found["rejected"]) == (0, 1, [])
    assert [alert for task in _HEALTHY for alert in bench.remote.alerts_about(task)] == []
    await bench.until_messages("notices-demo", 2 * len(_HEALTHY))
    for task, (_, reason) in _BAD.items():
        found = await bench.until_state(task, "Error")
        assert found["reason"].startswith(reason)
        assert len(found["reason"].encode()) < _MOST_REASON_BYTES
        await until(lambda: len(bench.remote.alerts_about(task)) == 1)  # noqa: B023 - called here


async def test_each_bad_one_is_named_once(bench: Bench) -> None:
    """Rows by one alert or a few, however many sweeps meet them; messages are kept, each with its reason."""
    named = {*_CORRUPT_ROWS, *_GARBAGE}
    await until(lambda: named <= _named(bench))
    assert (await _next_sweep(bench))["figures"]["corrupt"] == len(named)
    await bench.until_empty("operator-alerts")
    alerts = len(_corrupt(bench))
    await _next_sweep(bench)
    assert len(_corrupt(bench)) == alerts
    async with bench.session.get("/api/ops/tasks", params={"under_way": "true"}) as answer:
        page = await answer.json()
    assert {row["key"] for row in page["corrupt"]} >= _CORRUPT_ROWS.keys()
    wanted, kept = Counter(dict.fromkeys(_OTHER_QUEUES, len(_UNREADABLE))), Counter[str]()
    async with asyncio.timeout(PATIENCE):
        while await _kept_for(bench, "submitted_at", "JSON") != [3, 1]:
            await asyncio.sleep(0.1)
        while not kept >= wanted:
            kept = Counter(live_queue(each["queue"]) for each in await rejected(bench.platform))


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
        resent = await answer.json()
    assert (resent["resent_by"], resent["resent_why"]) == ("operator", "to see it again")
    async with asyncio.timeout(PATIENCE):
        while resent["resent_as"] not in {each["message_id"] for each in await rejected(bench.platform)}:
            await asyncio.sleep(0.1)


async def _kept_for(bench: Bench, *faults: str) -> list[int]:
    """Count the bad submissions that are kept, by a part of the reason."""
    reasons = [each["reason"] for each in await rejected(bench.platform) if each["message_id"] in _BAD_IDS]
    return [sum(fault in reason for reason in reasons) for fault in faults]


def _corrupt_rows(table: TableClient) -> None:
    """Corrupt rows of two tasks that are due by their index, and add rows that cannot be decoded."""
    every = {row["RowKey"]: row for row in table.list_entities()}
    for key, column in _CORRUPT_ROWS.items():
        task, partition = key.partition("|")[0], every[key]["PartitionKey"]
        table.update_entity({"PartitionKey": partition, "RowKey": key, column: "{"})
        index = next(row for row in every if row.startswith("!due|") and row.endswith(task))
        table.create_entity({**every[index], "RowKey": f"!due|20200101T000000.000000Z|{task}"})
    for key in _GARBAGE:
        for partition in ("000", "001"):
            row = {"PartitionKey": partition, "RowKey": key, "OrderID": "garbage", "Message": "{"}
            table.create_entity(row)


def _bad_messages() -> list[ServiceBusMessage]:
    """Make messages that cannot be understood, and one of a task that cannot be read."""
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


def _corrupt(bench: Bench) -> list[dict[str, Any]]:
    return [alert for alert in bench.remote.alerts if alert.get("cause") == "corrupt rows"]


def _named(bench: Bench) -> set[str]:
    return {part.partition(" (")[0] for alert in _corrupt(bench) for part in alert["rows"].split("; ")}


async def _next_sweep(bench: Bench) -> dict[str, Any]:
    """Wait for the end of a sweep that begins after this, and return its heartbeat."""
    called_at = datetime.now(UTC)
    async with asyncio.timeout(PATIENCE):
        while True:
            async with bench.session.get("/api/ops/overview") as answer:
                assert answer.status == 200
                sweep: dict[str, Any] | None = (await answer.json())["sweep"]
            if sweep is not None and datetime.fromisoformat(sweep["began_at"]) > called_at:
                return sweep
            await asyncio.sleep(0.1)
