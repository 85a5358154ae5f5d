"""The queries read the lines that the application logs: the application's code produces each line here."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest

from functions.core.record import FailurePolicy, Message, MessageKind, TaskRecord
from functions.core.task_events import OutcomeKind
from functions.messaging.intake_measurement import IntakeBounds, measure_intake
from functions.messaging.message_format import QueueMessage
from functions.messaging.queue_depths import Backlog, Depth, QueueDepth, log_queue_ages
from functions.messaging.rejected_messages import LostMessages, RejectedMessages
from functions.messaging.task_messages import addressed
from functions.operators.alerts import Alerts
from functions.supervisor.sweep_progress import report_sweep
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.storage_process import START, virtual_now
from tests.infra.watching.resources import DECLARED, queries
from tests.unit.core.builders import DUE, after, new, run, spec, start
from tests.unit.storage.virtual import virtual
from tests.unit.supervisor.supervised import Supervised, admit_due

_QUERIES = queries()


@pytest.fixture(autouse=True)
def _everything_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)


def _alerts() -> Alerts:
    return Alerts(None, IndexedTable(), 1, virtual_now)


async def _alert(messages: Sequence[Message]) -> None:
    """Log the only alert among messages, as the function `operator_alert` does."""
    [alert] = [each for each in messages if each.kind is MessageKind.ALERT]
    await _alerts().take(addressed(alert)[1].body)


async def _step_refused() -> None:
    await _alert(run(new(spec("a"), on_failure=FailurePolicy.KEEP), "a", OutcomeKind.REFUSED).outbox)


def _undoing() -> TaskRecord:
    return run(run(new(spec("a", undo=True), spec("b", "a")), "a"), "b", OutcomeKind.REFUSED)


async def _undo_refused() -> None:
    await _alert(run(_undoing(), "a", OutcomeKind.REFUSED).outbox)


async def _undo_exhausted() -> None:
    record, seconds = _undoing(), 1.0
    while record.finished_at is None:
        seconds += 10_000
        if record.resume_at is not None:
            record = after(record, DUE, seconds=seconds)
        record = after(record, start(record, "a", by=seconds + 10), seconds=seconds)
        record = after(record, DUE, seconds=seconds + 100)
    await _alert(record.outbox)


async def _gate_closed() -> None:
    process = Supervised(IndexedTable())
    await process.gates.report("card", OutcomeKind.NOT_BEGUN, virtual_now())
    await asyncio.sleep(11)
    await process.sweep()
    await _alert(process.sent)


async def _rows_corrupt() -> None:
    table = IndexedTable()
    process = await admit_due(table, 1)
    table.rows["000", "t0000|order"]["Facts"] = "{"
    for _ in range(2):
        await process.sweep()
        await asyncio.sleep(11)
    await _alert(process.sent)


async def _message_lost() -> None:
    lost = LostMessages(RejectedMessages(IndexedTable(), virtual_now), _alerts().alert_lost)
    properties = {"DeadLetterReason": "MaxDeliveryCountExceeded"}
    await lost.take("submissions", QueueMessage(message_id="m", body=b"{}", properties=properties))


async def _reply_rejected() -> None:
    await _alerts().alert_rejected("agent-replies", "epoch: not an integer", task="t", step="pay")


class _Queues:
    """The queues, of which `submissions` has one message of one byte."""

    async def backlog(self, _queue: str) -> Backlog:
        """Return the backlog of submissions."""
        return Backlog(1, 1, START)

    async def depths(self) -> list[QueueDepth]:
        """Return the depth of the queue."""
        return [QueueDepth("submissions", Depth(1, has_more=False, oldest_at=START), None)]


async def _orders_refused() -> None:
    await asyncio.sleep(60)
    bounds = IntakeBounds(timedelta(seconds=1), 10)
    await measure_intake(cast("Any", _Queues()), IndexedTable(), bounds, virtual_now)


async def _queue_ages() -> None:
    await log_queue_ages(cast("Any", _Queues()), virtual_now)


_OF_A_TASK, _OF_NO_TASK = {"gate", "rows", "state"}, {"epoch", "task", "workflow"}
#: A query, the code that logs a line, the fields that only one of them has, and values of the line.
_LINES: list[tuple[str, Callable[[], Awaitable[None]], set[str], dict[str, object]]] = [
    ("operator-alerts", _step_refused, _OF_A_TASK, {"cause": "error"}),
    ("operator-alerts", _undo_refused, _OF_A_TASK, {"cause": "error"}),
    ("operator-alerts", _undo_exhausted, _OF_A_TASK, {"cause": "error"}),
    ("operator-alerts", _gate_closed, _OF_NO_TASK | {"rows"}, {"cause": "gate closed", "gate": "card"}),
    ("operator-alerts", _rows_corrupt, _OF_NO_TASK | {"gate"}, {"cause": "corrupt rows"}),
    ("lost-messages", _message_lost, set(), {}),
    ("rejected-replies", _reply_rejected, {"queue"}, {}),
    ("refused-orders", _orders_refused, set(), {}),
    ("waiting-messages", _queue_ages, set(), {}),
]


@pytest.mark.parametrize(("name", "log", "differing", "values"), _LINES)
@virtual
async def test_line_is_read_by_its_query(
    name: str,
    log: Callable[[], Awaitable[None]],
    differing: set[str],
    values: dict[str, object],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By its start and level; the query reads the fields of the line."""
    await log()
    query, record, facts = _QUERIES[name], caplog.records[-1], _facts(caplog.messages[-1])
    assert query.head
    assert record.getMessage().startswith(query.head)
    assert query.errors_only is (record.levelno == logging.ERROR)
    assert query.facts ^ facts.keys() == differing
    assert facts.items() >= values.items()
    assert str(facts.get("reason")).count("undo of ") == (log in {_undo_refused, _undo_exhausted})
    assert "t0000|order" in facts.get("rows", "t0000|order")


def test_each_cause_is_distinguished() -> None:
    """Each alert on `operator-alerts` has a line above; a failed undo differs by the start of its reason."""
    dimensions = (each for alert in DECLARED["log"] for each in alert["dimensions"])
    alerted = {cause for each in dimensions if each["name"] == "Cause" for cause in each["values"]}
    assert {values["cause"] for _, _, _, values in _LINES if "cause" in values} == alerted
    assert 'Reason startswith "undo of "' in _QUERIES["operator-alerts"].text


def test_every_query_of_lines_is_checked_against_the_code() -> None:
    """A new query needs a line above."""
    checked = {name for name, *_ in _LINES} | {"silent-supervisor", "sweeps"}
    assert {name for name, query in _QUERIES.items() if "AppTraces" in query.text} == checked


async def _sweep_line(process: Supervised, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    await report_sweep("supervisor sweep", process.sweep)
    return caplog.messages[-1]


@virtual
async def test_sweep_is_found_with_its_figures(caplog: pytest.LogCaptureFixture) -> None:
    """Also a sweep that did nothing, because it shows that the Supervisor runs; a failed sweep does not."""
    query, table = _QUERIES["sweeps"], IndexedTable()
    process = await admit_due(table, 1)
    await asyncio.sleep(100)
    busy, quiet = [await _sweep_line(process, caplog) for _ in range(2)]
    table.read_fault = lambda: True
    failed = await _sweep_line(process, caplog)
    assert query.head
    assert query.head == _QUERIES["silent-supervisor"].head
    assert [line.startswith(query.head) for line in (busy, quiet, failed)] == [True, True, False]
    assert query.facts <= _facts(busy).keys()
    assert _facts(busy)["late_seconds"] >= 100
    assert query.facts.isdisjoint(_facts(quiet))


def _facts(line: str) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(line[line.index("{") :])
    return facts
