"""Alerts: each is logged, and posted to the webhook within the limit of a minute."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.core.record import Message, MessageKind
from functions.messaging.message_format import MessageError
from functions.messaging.queue_names import OPERATOR_ALERTS_QUEUE, handling_seconds
from functions.messaging.rejected_messages import LostMessage
from functions.messaging.task_messages import addressed
from functions.operators import alerts as alerts_module
from functions.operators.alerts import Alert, Alerts, Webhook, WebhookError, document, lost_alert
from functions.supervisor.sweep_progress import SUPERVISOR
from tests.fakes.clock import START, FakeClock
from tests.fakes.indexed_table import IndexedTable
from tests.fakes.remote_service import Answer
from tests.fakes.simulated_table import TableFault
from tests.unit.conftest import Service

LOST = LostMessage("submissions", "m-1", None, "MaxDeliveryCountExceeded")
LIMIT = 2
DOWN = WebhookError("the alert webhook answered 500")
ROW = SUPERVISOR, "alerts"


def _body(reason: str = "no money", task: str = "task-1", cause: str = "error") -> bytes:
    body = {"cause": cause, "reason": reason, "state": "Error"}
    return addressed(Message(kind=MessageKind.ALERT, id="a", task=task, at=START, body=body))[1].body


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]


class Instances:
    """Instances of the application with one webhook, which fails while it has a `failure`."""

    def __init__(self) -> None:
        self.clock, self.table = FakeClock(), IndexedTable()
        self.posted: list[Alert] = []
        self.failure: Exception | None = None

    def make(self, post: Callable[[Alert], Awaitable[None]] | None = None) -> Alerts:
        """Return another instance, which posts with `post`."""
        return Alerts(post or self._post, self.table, LIMIT, self.clock.now)

    async def _post(self, alert: Alert) -> None:
        if self.failure is not None:
            raise self.failure
        self.posted.append(alert)

    async def alert(self, number: int = 1, reason: str = "pay: card refused with code") -> None:
        """Take the alert of a task from the queue."""
        await self.make().take(_body(f"{reason} {number}", f"task-{number}"))

    async def pass_minutes(self, minutes: float = 1) -> None:
        """Run the timers of two instances after this time."""
        self.clock.advance(60 * minutes)
        for _ in range(2):
            await self.make().post_summary()

    @property
    def events(self) -> Sequence[str]:
        """The names of the posted events."""
        return [alert.event for alert in self.posted]


@pytest.fixture
def instances() -> Instances:
    """Return no instance yet."""
    return Instances()


async def test_alert_is_one_line_and_is_posted(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """The event, then its facts as JSON, with any text in them."""
    reason = 'send: "no money"\nERROR operator alert {}'
    await instances.make().take(_body(reason))
    [line] = _errors(caplog)
    assert "\n" not in line
    assert json.loads(line.removeprefix("operator alert ")) == {
        "cause": "error",
        "task": "task-1",
        "state": "Error",
        "reason": reason,
        "at": START.isoformat(),
    }
    assert [alert.line for alert in instances.posted] == [line]


async def test_alert_of_a_gate_and_of_corrupt_rows_names_them(instances: Instances) -> None:
    """They have no task."""
    for body in ({"gate": "pay", "reason": "closed"}, {"rows": {"a|task": "ValueError", "b|task": "x"}}):
        message = Message(kind=MessageKind.ALERT, id="a", task="", at=START, body={"cause": "c", **body})
        await instances.make().take(addressed(message)[1].body)
    gate, rows = instances.posted
    assert (gate.cause, gate.facts["gate"]) == ("operator alert: c: pay: closed", "pay")
    assert (rows.facts["rows"], "task" in rows.facts) == ("a|task (ValueError); b|task (x)", False)


@pytest.mark.parametrize("body", [b'{"id":"s3cret order"}', b"s3cret"])
async def test_message_that_is_no_alert_is_not_accepted(instances: Instances, body: bytes) -> None:
    """It becomes a dead letter; its values are not logged."""
    with pytest.raises(MessageError) as error:
        await instances.make().take(body)
    assert "s3cret" not in str(error.value)


async def test_lost_and_rejected_messages_are_posted(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """The recorder of a loss has logged it; no error is raised. The queue of alerts delivers again."""
    await instances.make().alert_lost(LOST)
    await instances.make().alert_rejected("agent-replies", "not JSON", task="t", step=None)
    assert instances.events == ["message lost", "message rejected"]
    assert [line.partition(" {")[0] for line in _errors(caplog)] == ["message rejected"]
    instances.failure, instances.table.read_fault = DOWN, lambda: True
    await instances.make().alert_lost(LOST)
    assert "neither posted nor counted" in caplog.text
    with pytest.raises(WebhookError):
        await instances.alert()


def test_teams_card_shows_each_fact_as_text() -> None:
    """As text runs, in which Teams reads no Markdown; an unknown fact has no line."""
    assert document(lost_alert(LOST), for_teams=False)["event"] == "message lost"
    message = document(lost_alert(LOST), for_teams=True)
    [attachment] = message["attachments"]
    title, *lines = attachment["content"]["body"]
    assert (message["type"], title["text"]) == ("message", "Message lost")
    assert {line["type"] for line in lines} == {"RichTextBlock"}
    assert ["".join(run["text"] for run in line["inlines"]) for line in lines] == [
        "queue: submissions",
        "message id: m-1",
        "reason: MaxDeliveryCountExceeded",
    ]


async def test_alerts_above_the_limit_are_one_summary(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """With their number by cause; each alert has its own line in the log."""
    for number in range(60):
        await instances.alert(number)
    await instances.alert(reason="ship: no stock")
    await instances.make().alert_lost(LOST)
    await instances.pass_minutes(0.9)
    assert instances.events == ["operator alert"] * LIMIT
    assert len(_errors(caplog)) == 61
    await instances.pass_minutes(0.1)
    *_, summary = instances.posted
    assert instances.events == ["operator alert"] * LIMIT + ["more alerts"]
    assert summary.facts["alerts"] == 60
    assert str(summary.facts["causes"]).split("; ") == [
        "operator alert: error: pay: card refused with code … (58)",
        "operator alert: error: ship: no stock … (1)",
        "message lost: submissions (1)",
    ]


async def test_each_minute_has_its_own_limit(instances: Instances) -> None:
    """It begins with its first alert, or with the summary of the minute before."""
    for _ in range(2):
        for number in range(LIMIT):
            await instances.alert(number)
        await instances.pass_minutes()
    assert instances.events == ["operator alert"] * 2 * LIMIT
    for number in range(LIMIT + 1):
        await instances.alert(number)
    await instances.pass_minutes()
    await instances.alert()
    assert instances.events[2 * LIMIT :] == ["operator alert"] * LIMIT + ["more alerts", "operator alert"]


async def test_summary_that_is_not_accepted_is_posted_again(instances: Instances) -> None:
    """With the alerts that came meanwhile; none is posted singly before."""
    for number in range(LIMIT + 3):
        await instances.alert(number)
    instances.failure = DOWN
    await instances.pass_minutes()
    instances.failure = None
    await instances.alert()
    await instances.pass_minutes(0)
    assert [alert.facts.get("alerts") for alert in instances.posted[LIMIT:]] == [4]


async def test_alerts_while_the_summary_is_posted_are_in_the_next(instances: Instances) -> None:
    """Another instance may post the same summary; it removes no count of the next minute."""
    for number in range(LIMIT + 3):
        await instances.alert(number)
    instances.clock.advance(60)

    async def post(_: object) -> None:
        await instances.alert()
        await instances.make().post_summary()
        instances.clock.advance(1)
        for number in range(LIMIT + 3):
            await instances.alert(number)

    await instances.make(post).post_summary()
    await instances.pass_minutes()
    summaries = [alert.facts["alerts"] for alert in instances.posted if alert.event == "more alerts"]
    assert (len(instances.posted) - len(summaries), summaries) == (2 * LIMIT, [4, 3])


async def test_webhook_that_does_not_answer_times_out(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary counts the alerts, within the handling of their messages, and is posted later."""
    seconds = alerts_module._QUEUED_SECONDS + 2 * alerts_module._COUNT_SECONDS
    assert seconds < handling_seconds(OPERATOR_ALERTS_QUEUE)
    monkeypatch.setattr(alerts_module, "_POST_SECONDS", 0.01)
    monkeypatch.setattr(alerts_module, "_QUEUED_SECONDS", 0.01)
    silent = instances.make(lambda _: asyncio.sleep(3_600))
    await silent.alert_lost(LOST)
    await silent.take(_body())
    instances.clock.advance(60)
    await silent.post_summary()
    await instances.pass_minutes(0)
    assert [alert.facts["alerts"] for alert in instances.posted] == [2]


async def test_alerts_are_posted_singly_while_they_cannot_be_counted(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The table may fail, or take a minute."""
    instances.table.read_fault = lambda: True
    for number in range(LIMIT + 1):
        await instances.alert(number)
    instances.table.read_fault, instances.table.seconds = lambda: False, 3_600
    monkeypatch.setattr("functions.operators.alerts._COUNT_SECONDS", 0.01)
    await instances.alert()
    assert len(instances.posted) == LIMIT + 2


async def test_summary_is_posted_once_while_its_counts_cannot_be_removed(instances: Instances) -> None:
    """The timer runs every 15 seconds."""
    for number in range(LIMIT + 2):
        await instances.alert(number)
    instances.clock.advance(60)
    alerts = instances.make()
    instances.table.fault = lambda: TableFault.NOT_SENT
    for _ in range(3):
        await alerts.post_summary()
    instances.table.fault = lambda: None
    await alerts.post_summary()
    await instances.pass_minutes()
    assert instances.events[LIMIT:] == ["more alerts"]


async def test_instances_that_count_at_once_lose_no_alert(instances: Instances) -> None:
    """Each change is a compare-and-swap."""
    instances.table.seconds = 0.001
    await asyncio.gather(*(instances.alert(number) for number in range(5)))
    await instances.pass_minutes()
    assert sum(int(alert.facts.get("alerts") or 1) for alert in instances.posted) == 5


async def test_number_of_causes_is_bounded(instances: Instances) -> None:
    """The others are counted together."""
    for number in range(30):
        await instances.alert(number, reason=f"pay: cause {'x' * number} ")
    await instances.pass_minutes()
    *_, summary = instances.posted
    causes = str(summary.facts["causes"])
    assert (summary.facts["alerts"], causes.count("; ")) == (28, 20)
    assert causes.startswith("other causes (8); ")


async def test_corrupt_row_is_replaced(instances: Instances) -> None:
    """The log has the lines of its alerts."""
    await instances.alert()
    instances.table.rows[ROW]["Minute"] = "{"
    await instances.pass_minutes()
    await instances.alert()
    assert instances.events == ["operator alert"] * 2


async def test_nothing_is_counted_without_a_webhook(instances: Instances) -> None:
    """The log has all alerts."""
    alerts = Alerts(None, instances.table, LIMIT, instances.clock.now)
    await alerts.alert_lost(LOST)
    await alerts.take(_body())
    await alerts.post_summary()
    assert (instances.posted, ROW in instances.table.rows) == ([], False)


@given(st.lists(st.integers(0, 900), max_size=40))
async def test_every_alert_is_posted_once_at_any_time(arrivals: list[int]) -> None:
    """Singly or in a summary."""
    instances, now = Instances(), 0
    for at in sorted(arrivals):
        await instances.pass_minutes((at - now) / 60)
        await instances.alert()
        now = at
    await instances.pass_minutes()
    counted = sum(int(alert.facts.get("alerts") or 1) for alert in instances.posted)
    assert counted == len(arrivals)


# The webhook


def _webhook(service: Service, path: str = "", alert_format: Literal["teams"] | None = None) -> Webhook:
    return Webhook(service.address + path, alert_format, session=lambda: service.session, first_wait=0.001)


async def test_alert_is_posted_as_json(service: Service) -> None:
    """To the address of the settings; the format may be set."""
    await _webhook(service, "/hook/s3cret").post(lost_alert(LOST))
    await _webhook(service, alert_format="teams").post(lost_alert(LOST))
    generic, teams = service.received
    assert (generic.method, generic.path) == ("POST", "/hook/s3cret")
    assert generic.headers["Content-Type"] == "application/json"
    assert [json.loads(each.body).get("event") for each in (generic, teams)] == ["message lost", None]


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_other_status_is_an_error_after_four_attempts(service: Service, status: int) -> None:
    """A redirect is not followed; the error does not name the address, which is a secret."""
    service.answers = [Answer(status, headers={"Location": "/elsewhere"})]
    with pytest.raises(WebhookError, match=f"^the alert webhook answered {status}$"):
        await _webhook(service, "/s3cret").post(lost_alert(LOST))
    assert [request.path for request in service.received] == ["/s3cret"] * 4


async def test_short_fault_of_the_webhook_is_retried(service: Service) -> None:
    """The queue would deliver the alert again at once, and ten times only."""
    service.answers = [Answer(503), Answer(429), Answer()]
    await _webhook(service).post(lost_alert(LOST))
    assert len(service.received) == 3
    service.address = "http://127.0.0.1:1"
    with pytest.raises(WebhookError) as error:
        await _webhook(service, "/s3cret").post(lost_alert(LOST))
    assert ("s3cret" in str(error.value), error.value.__cause__) == (False, None)


@pytest.mark.parametrize(
    ("address", "is_for_teams"),
    [
        ("https://contoso.webhook.office.com/webhookb2/x", True),
        ("https://prod-01.westeurope.logic.azure.com:443/workflows/x", True),
        ("https://webhook.office.com.example.com/x", False),
        ("https://alerts.example.com/x", False),
    ],
)
def test_host_of_the_address_decides_the_format(address: str, *, is_for_teams: bool) -> None:
    """Teams is known by its hosts."""
    assert Webhook(address, None, session=aiohttp.ClientSession).is_for_teams is is_for_teams
