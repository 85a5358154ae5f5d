"""The queries read the lines that the application logs: the application's code produces each line here."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, cast

import pytest

from functions.core.record import FailurePolicy, Message, MessageKind, TaskRecord
from functions.core.task_events import OutcomeKind
from functions.messaging.intake_measurement import IntakeBounds
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_depths import Backlog, Depth, QueueDepth
from functions.messaging.rejected_messages import LostMessages, RejectedMessages
from functions.messaging.task_messages import addressed
from functions.operators.alerts import AlertLimit, Alerts
from functions.timers import log_queue_ages, measure_intake, report_sweep
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, virtual_now
from tests.infra.watching.kql import query_names, read_query
from tests.infra.watching.resources import alerted_causes
from tests.unit.core.builders import LOOK, after, new, run, spec, start
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.supervised import Supervised, admit_due


@pytest.fixture(autouse=True)
def _everything_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def _alerts() -> Alerts:
    return Alerts(None, AlertLimit(IndexedTable(), 1, virtual_now))


def _facts(line: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(line[line.index("{") :])
    return facts


def _checked(query_name: str, record: logging.LogRecord) -> dict[str, Any]:
    """Return the facts of a line that a query reads."""
    query, line = read_query(query_name), record.getMessage()
    assert query.head
    assert line.startswith(query.head)
    assert query.errors_only is (record.levelno == logging.ERROR)
    return _facts(line)


async def _alert(messages: Sequence[Message], caplog: pytest.LogCaptureFixture) -> dict[str, Any]:
    """Return the facts of the only alert among messages, as the function `operator_alert` logs it."""
    [alert] = [each for each in messages if each.kind is MessageKind.ALERT]
    await _alerts().take(addressed(alert)[1].body)
    return _checked("operator-alerts", caplog.records[-1])


def _undo_refused() -> TaskRecord:
    record = run(new(spec("a", undo=True), spec("b", "a")), "a")
    return run(run(record, "b", OutcomeKind.REFUSED), "a", OutcomeKind.REFUSED)


def _undo_exhausted() -> TaskRecord:
    record, seconds = run(new(spec("a", undo=True), spec("b", "a")), "a"), 1.0
    record = run(record, "b", OutcomeKind.REFUSED)
    while record.finished_at is None:
        seconds += 10_000
        if record.resume_at is not None:
            record = after(record, LOOK, seconds=seconds)
        record = after(record, start(record, "a", by=seconds + 10), seconds=seconds)
        record = after(record, LOOK, seconds=seconds + 100)
    return record


@pytest.mark.parametrize(
    ("failed", "is_undo"),
    [
        (lambda: run(new(spec("a"), on_failure=FailurePolicy.KEEP), "a", OutcomeKind.REFUSED), False),
        (_undo_refused, True),
        (_undo_exhausted, True),
    ],
)
async def test_task_in_error_is_found_and_a_failed_undo_is_distinguished(
    failed: Callable[[], TaskRecord], caplog: pytest.LogCaptureFixture, *, is_undo: bool
) -> None:
    """By the cause, and by the beginning of the reason."""
    query = read_query("operator-alerts")
    facts = await _alert(failed().outbox, caplog)
    assert query.facts - facts.keys() == {"gate", "rows"}
    assert facts["cause"] in alerted_causes()
    assert 'Reason startswith "undo of "' in query.text
    assert facts["reason"].count("undo of ") == is_undo


@virtual
async def test_closed_gate_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """By its name, which is that of its service, or `queue:` and the name of the Agent."""
    process = Supervised(IndexedTable())
    await process.gates.report("card", OutcomeKind.NOT_BEGUN, virtual_now())
    await asyncio.sleep(11)
    await process.sweep()
    facts = await _alert(process.sent, caplog)
    assert (facts["cause"] in alerted_causes(), facts["gate"]) == (True, "card")


@virtual
async def test_corrupt_rows_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """With the keys of some of them."""
    table = IndexedTable()
    process = await admit_due(table, 1)
    table.rows["000", "t0000|order"]["Facts"] = "{"
    for _ in range(2):
        await process.sweep()
        await asyncio.sleep(11)
    facts = await _alert(process.sent, caplog)
    assert facts["cause"] in alerted_causes()
    assert "t0000|order" in facts["rows"]


@virtual
async def test_lost_message_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """By its queue and its reason."""
    lost = LostMessages(RejectedMessages(IndexedTable(), virtual_now), _alerts().alert_lost)
    properties = {"DeadLetterReason": "MaxDeliveryCountExceeded"}
    await lost.take("submissions", QueueMessage(message_id="m", body=b"{}", properties=properties))
    [line] = caplog.records
    assert read_query("lost-messages").facts == _checked("lost-messages", line).keys()


@virtual
async def test_rejected_reply_is_found(caplog: pytest.LogCaptureFixture) -> None:
    """By its step, if it names one."""
    await _alerts().alert_rejected("agent-replies", "epoch: not an integer", task="t", step="pay")
    [line] = caplog.records
    assert _checked("rejected-replies", line).keys() - read_query("rejected-replies").facts == {"queue"}


class _Queues:
    """The queues, of which `submissions` holds one message of one byte."""

    async def backlog(self, _queue: str) -> Backlog:
        """Return the backlog of submissions."""
        return Backlog(1, 1, START)

    async def depths(self) -> list[QueueDepth]:
        """Return the depth of the queue."""
        return [QueueDepth("submissions", Depth(1, has_more=False, oldest_at=START), None)]


@virtual
async def test_refused_orders_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """At each measurement."""
    await asyncio.sleep(60)
    bounds = IntakeBounds(timedelta(seconds=1), 10)
    await measure_intake(cast("Any", _Queues()), IndexedTable(), bounds, virtual_now)
    [line] = caplog.records
    assert read_query("refused-orders").facts == _checked("refused-orders", line).keys()


@virtual
async def test_old_messages_are_found(caplog: pytest.LogCaptureFixture) -> None:
    """With their queue and the age of the oldest one."""
    await log_queue_ages(cast("Any", _Queues()), virtual_now)
    [line] = caplog.records
    assert read_query("waiting-messages").facts == _checked("waiting-messages", line).keys()


async def _sweep_line(sweep: Callable[[], Awaitable[Any]], caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    await report_sweep("supervisor sweep", sweep)
    return caplog.messages[-1]


@virtual
async def test_sweep_is_found_with_its_figures(caplog: pytest.LogCaptureFixture) -> None:
    """Also a sweep that did nothing, because it shows that the Supervisor runs."""
    query = read_query("sweeps")
    process = await admit_due(IndexedTable(), 1)
    await asyncio.sleep(100)
    busy = await _sweep_line(process.sweep, caplog)
    quiet = await _sweep_line(process.sweep, caplog)
    assert query.head
    assert query.head == read_query("silent-supervisor").head
    assert query.facts <= _facts(busy).keys()
    assert _facts(busy)["late_seconds"] >= 100
    assert quiet.startswith(query.head)
    assert query.facts.isdisjoint(_facts(quiet))


@virtual
async def test_failed_sweep_is_no_sign_of_life(caplog: pytest.LogCaptureFixture) -> None:
    """A Supervisor whose sweeps fail counts as silent."""
    table = IndexedTable()
    process = Supervised(table)
    table.read_fault = lambda: True
    head = read_query("sweeps").head
    assert head
    assert not (await _sweep_line(partial(process.sweep), caplog)).startswith(head)


def test_every_query_of_lines_is_checked_against_the_code() -> None:
    """A new query needs a test here."""
    checked = {
        *("lost-messages", "operator-alerts", "refused-orders", "rejected-replies"),
        *("silent-supervisor", "sweeps", "waiting-messages"),
    }
    assert {name for name in query_names() if "AppTraces" in read_query(name).text} == checked
