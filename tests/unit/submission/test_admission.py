"""An order becomes a task with its first run, or is rejected, or waits for its version."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import create_model

from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry, search_key
from functions.core.derive import ProcessState, derive
from functions.core.task_events import Cancelled, Canceller, Resumed, Suspended
from functions.messaging.message_format import QueueMessage
from functions.messaging.received_messages import DeliveryCounts, copy_of
from functions.storage.table_contract import TransientStorageError
from functions.submission.admission import AdmissionResult
from tests.fakes.simulated_table import TableFault
from tests.fakes.storage_process import START
from tests.unit.submission.bench import SEND, Bench, Parcel, body, findable, workflow


@pytest.fixture
def bench() -> Bench:
    """Return an admission that has admitted nothing."""
    return Bench()


async def test_order_becomes_a_task_with_a_run(bench: Bench) -> None:
    """`Pending` until its run starts a step; it has the facts of the message, and operators find it."""
    sent = body(reply_to="notices-demo", correlation_id="c-1", submitted_at="2025-12-31T23:00:00Z")
    assert await bench.take(sent) is AdmissionResult.RECORDED
    record = await bench.record()
    seen = (derive(record).state, derive(record).due_at)
    assert seen == (ProcessState.PENDING, START + timedelta(seconds=30))
    order = record.order
    assert (order.payload, order.reply_to, order.correlation_id) == ('{"weight":3}', "notices-demo", "c-1")
    assert (order.submitter, order.submitted_at, len(order.run_id)) == ("ann", START - timedelta(hours=1), 8)
    assert bench.runs == ["t-1.1.1"]
    assert [str(getattr(each, "kind", "")) for each in bench.sent] == ["received"]
    assert await bench.rejections() == []


async def test_suspension_extends_the_time_limit_of_an_order_whose_sender_is_ahead() -> None:
    """The order counts as submitted when it is admitted, if the sender's clock says a later time."""
    bench = Bench(workflow(complete_within=600))
    await bench.take(body(submitted_at="2026-01-01T02:00:00Z"))
    assert (await bench.record()).order.submitted_at == START
    for event in (Suspended(reason="why", by_operator=True), Resumed(by_operator=True)):
        bench.now += timedelta(seconds=300)
        await bench.storage.change("t-1", event, until=bench.now + timedelta(seconds=20))
    assert (await bench.record()).expires_at == START + timedelta(seconds=900)


async def test_order_is_found_by_its_search_texts() -> None:
    """The queue repeats the checks of the API: texts that cannot be read reject the order."""
    bench = Bench(findable())
    await bench.take(body())
    assert len(bench.table.keys(f"!find|{search_key('Weight 3')}|")) == 1
    for texts in ([str(number) for number in range(9)], "Ada", [3]):
        bench = Bench(findable(lambda _, texts=texts: texts))
        assert await bench.take(body()) is AdmissionResult.REJECTED
        assert "search texts" in (await bench.rejections())[0].reason


STRICTER = create_model("Stricter", __base__=Parcel, address=(str, ...))


@pytest.mark.parametrize(
    ("deployed", "queues"),
    [
        ([workflow(), workflow(payload=STRICTER, version=2)], {"notices-demo"}),
        ([workflow()], set()),
        ([findable(lambda _: [str(number) for number in range(9)])], {"notices-demo"}),
    ],
)
async def test_recorded_order_is_known_after_a_deployment(
    bench: Bench, deployed: list[Workflow[Any]], queues: set[str]
) -> None:
    """Its message comes again, because the deployment killed the host before it requested the run."""
    sent: dict[str, Any] = {"reply_to": "notices-demo", "version": None}
    await bench.take(body(**sent))
    bench.runs.clear()
    bench.registry = WorkflowRegistry(deployed)
    bench.restart()
    bench.admission = replace(bench.admission, reply_queues=queues)
    assert await bench.take(body(**sent)) is AdmissionResult.KNOWN
    assert (bench.runs, await bench.rejections()) == (["t-1.1.1"], [])
    assert await bench.take(body("t-2", **sent)) is AdmissionResult.REJECTED


async def test_repeated_order_is_one_task(bench: Bench) -> None:
    """Its first run is requested again, because a crash may have prevented the request."""
    await bench.take(body())
    writes = len(bench.table.rows)
    bench.restart()
    assert await bench.take(body(submitted_at="2026-01-01T00:00:07Z"), "m-2") is AdmissionResult.KNOWN
    assert (bench.runs, len(bench.table.rows)) == (["t-1.1.1"] * 2, writes)
    assert await bench.rejections() == []


@pytest.mark.parametrize(
    "event",
    [
        Cancelled(by=Canceller.OPERATOR, who="olga", reason="why"),
        Suspended(reason="why", by_operator=True),
    ],
    ids=["undone", "suspended"],
)
async def test_repeated_order_of_another_state_requests_nothing(bench: Bench, event: Any) -> None:
    """No run has work to do."""
    await bench.take(body())
    await bench.storage.change("t-1", event, until=START + timedelta(seconds=20))
    runs = list(bench.runs)
    assert await bench.take(body()) is AdmissionResult.KNOWN
    assert bench.runs == runs


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "Invalid JSON: EOF while parsing an object"),
        (b"\xff", "Invalid JSON"),
        (b"[]", "Input should be an object"),
        (b'"{}"', "Input should be an object"),
        (body().replace(b": 3", b": NaN"), "payload.weight has a number that is no finite double"),
        (body(priority=1), "priority: Extra inputs are not permitted"),
        (body(schema_version=2), "schema_version: Input should be 1"),
        (body(task="a|b"), "task_id: String should match pattern"),
        (body(version=0), "version: Input should be greater than or equal to 1"),
        (body(version="1"), "version: Input should be a valid integer"),
        (body(submitter=None), "submitter: Field required"),
        (body(submitted_at="2026-11-22T12:00:00"), "submitted_at: Input should have timezone info"),
        (
            body(submitted_at="0001-01-01T00:00:00+14:00"),
            "submitted_at: use a time of the years 2000 to 8999",
        ),
        (body(correlation_id="a\nb"), "correlation_id: String should match pattern"),
        (body(task="c-mine"), "id: ids with c- are for child tasks"),
        (body(reply_to="elsewhere"), "reply_to: not a queue for notices"),
        (body(payload={"weight": "heavy"}), "weight: Input should be a valid integer"),
        (body(payload={"weight": 1, "size": 2}), "size: Extra inputs are not permitted"),
        (body(payload={"weight": 1, "text": "x" * 48 * 1024}), "payload: more than 49152 bytes"),
    ],
)
async def test_message_that_cannot_be_used_is_kept_with_the_reason(
    bench: Bench, content: bytes, reason: str
) -> None:
    """It is not delivered again."""
    assert await bench.take(content, tenant="blue") is AdmissionResult.REJECTED
    [kept] = await bench.rejections()
    assert (kept.queue, kept.message_id, kept.size) == ("submissions", "m-1", len(content))
    assert kept.reason.startswith(reason)
    assert (bench.table.rows, bench.runs) == ({}, [])
    resent = await bench.resent(kept)
    assert (resent.body, resent.properties) == (content, {"tenant": "blue"})


async def test_function_that_fails_is_logged_with_its_cause(caplog: pytest.LogCaptureFixture) -> None:
    """The reason is for everyone and does not contain it."""
    bench = Bench(workflow(steps=[replace_items(lambda parcel: parcel.missing)]))
    await bench.take(body())
    [kept] = await bench.rejections()
    assert kept.reason == "The items of its step 'send' cannot be read."
    assert "AttributeError" in str(next(each.exc_info for each in caplog.records if each.exc_info))


def replace_items(for_each: Any) -> Any:
    """Return the step with other items."""
    return type(SEND)("send", **{**SEND.options, "for_each": for_each})


async def test_reason_holds_no_secret(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A name below a secret field is secret, too."""
    await bench.take(body(workflow="purchases", payload={"card": "c4n4ry"}))
    bench.now += timedelta(seconds=1)
    doors = {"card": "x" * 12, "doors": {"c4n4ry": "x"}}
    await bench.take(body(workflow="purchases", payload=doors), "m-2")
    first, second = await bench.rejections()
    assert first.reason.startswith("card: Value should have at least 12 items")
    assert second.reason.startswith("doors: Input should be a valid integer")
    assert "c4n4ry" not in caplog.text


async def test_order_is_recorded_under_its_own_version() -> None:
    """One without a version has the newest."""
    bench = Bench(workflow(), workflow(version=2, steps=[SEND]))
    await bench.take(body())
    await bench.take(body("t-2", version=None))
    assert [(await bench.record(task)).order.version for task in ("t-1", "t-2")] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"workflow": "journey"}, "'journey' of version 1"), ({"version": 7}, "'orders' of version 7")],
)
async def test_order_of_a_missing_version_waits_for_a_day(bench: Bench, changes: Any, text: str) -> None:
    """On its queue, longer each time; the message is the same under other ids."""
    content = body(**changes)
    message = QueueMessage(message_id="m-1", body=content, properties={"tenant": "blue"})
    original = message
    while await bench.admission.take(message) is AdmissionResult.PUT_BACK:
        message = bench.put_back[-1][1]
    delays = [delay.total_seconds() for _, _, delay in bench.put_back]
    assert delays[:4] == [10, 20, 40, 80]
    assert max(delays) == delays[-1] == 1800
    assert 86_400 <= sum(delays) < 90_000
    assert {(queue, each.body) for queue, each, _ in bench.put_back} == {("submissions", content)}
    assert len({each.message_id for _, each, _ in bench.put_back}) == len(delays)
    [kept] = await bench.rejections()
    assert kept.reason == f"workflow: no {text} was deployed for a day"
    assert copy_of(message, DeliveryCounts()).properties == original.properties
    resent = await bench.resent(kept)
    assert await bench.admission.take(resent) is AdmissionResult.PUT_BACK  # for a day again
    assert DeliveryCounts.of(bench.put_back[-1][1]) == DeliveryCounts(put_back=1)


@pytest.mark.parametrize(
    ("size", "names"), [(16_000, {"note", "counted.put_back"}), (17_000, {"counted.put_back"})]
)
async def test_order_waits_without_properties_that_the_queue_does_not_accept(
    bench: Bench, size: int, names: set[str]
) -> None:
    """An event hub accepts more of them."""
    await bench.take(body(version=9), note="é" * size)
    assert set(bench.put_back[0][1].properties) == names


@pytest.mark.parametrize(
    "changes", [{"payload": {"weight": 4}}, {"submitter": "bob"}, {"reply_to": "notices-demo"}]
)
async def test_other_order_under_a_known_id_is_rejected(bench: Bench, changes: Any) -> None:
    """The first one stays, and the reason names nothing of it."""
    await bench.take(body())
    assert await bench.take(body(**changes), "m-2") is AdmissionResult.REJECTED
    [kept] = await bench.rejections()
    assert (kept.message_id, kept.task, kept.reason) == ("m-2", "t-1", "another order is recorded as t-1")
    assert (await bench.record()).order.payload == '{"weight":3}'


@pytest.mark.parametrize("fault", [TableFault.NOT_SENT, TableFault.NO_ANSWER])
async def test_storage_that_fails_has_the_message_delivered_again(bench: Bench, fault: TableFault) -> None:
    """It is neither lost nor rejected, and recorded once."""
    bench.table.fail_next(fault)
    with pytest.raises(TransientStorageError):
        await bench.take(body())
    assert await bench.rejections() == []
    assert await bench.take(body()) in {AdmissionResult.RECORDED, AdmissionResult.KNOWN}
    assert bench.runs == ["t-1.1.1"]
