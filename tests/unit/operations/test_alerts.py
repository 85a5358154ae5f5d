"""Alerts: each is logged, and posted to the webhook within `ALERTS_PER_MINUTE`."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from unittest.mock import AsyncMock

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.messages.queues import patience_of
from functions.operations.alerts.alerts import (
    Alert,
    AlertFormat,
    Alerts,
    NotAnAlertError,
    Webhook,
    document,
    lost_alert,
    task_alert,
)
from functions.operations.alerts.limit import AlertLimit
from functions.pattern.crowds import CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import OPERATOR_ALERTS_QUEUE, AnnouncementMessage
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.clock import START, FakeClock
from tests.fakes.ports import fake_ports
from tests.fakes.remote_service import Answer
from tests.fakes.tasks import after
from tests.unit.conftest import Service

MESSAGE = AnnouncementMessage(
    kind=AnnouncementKind.ALERT,
    id=TaskId("task-1"),
    workflow="line",
    state=ProcessState.ERROR,
    epoch=Epoch(2),
    at=START,
    reason='send: "no money"\nERROR operator alert {}',
)
BODY = MESSAGE.model_dump_json(exclude_none=True).encode()
LOSS = lost_alert("submissions", "m-1", None, "MaxDeliveryCountExceeded")


class Channel:
    """Keeps what was posted, or fails."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.posted: list[Alert] = []
        self._failure = failure

    async def post(self, alert: Alert) -> None:
        """Keep the alert."""
        if self._failure is not None:
            raise self._failure
        self.posted.append(alert)


def _errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR]


async def test_alert_is_one_line_that_a_rule_can_match(caplog: pytest.LogCaptureFixture) -> None:
    """The event, then its facts as JSON, whatever is in them."""
    await Alerts(None).alert_task(BODY)
    [line] = _errors(caplog)
    assert line.startswith("operator alert {")
    assert "\n" not in line
    assert json.loads(line.removeprefix("operator alert ")) == {
        "task": "task-1",
        "epoch": 2,
        "workflow": "line",
        "state": "Error",
        "reason": MESSAGE.reason,
        "at": "2026-11-21T10:00:00.123456+00:00",
    }


async def test_alert_is_posted() -> None:
    """To the channel, when there is one."""
    channel = Channel()
    await Alerts(channel.post).alert_task(BODY)
    assert channel.posted == [task_alert(MESSAGE)]


async def test_alert_that_is_not_taken_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    """The queue keeps it; the log has it all the same."""
    with pytest.raises(TransientError):
        await Alerts(Channel(TransientError("alert webhook answered 500")).post).alert_task(BODY)
    assert len(_errors(caplog)) == 1


@pytest.mark.parametrize(
    ("body", "fields"),
    [(b'{"id":"s3cret order"}', "at, epoch, id, kind, state, workflow"), (b"s3cret", "message")],
)
async def test_message_that_is_no_alert_ends_as_a_dead_letter(body: bytes, fields: str) -> None:
    """It is not taken, again and again, until it is one; what it holds is not logged."""
    with pytest.raises(NotAnAlertError, match=f"^not an alert: {fields}$"):
        await Alerts(None).alert_task(body)


async def test_loss_is_posted_when_that_is_possible(caplog: pytest.LogCaptureFixture) -> None:
    """It is on record already: a channel that fails, or is not there, is no reason to read it again."""
    channel = Channel()
    await Alerts(channel.post).post_recorded(LOSS)
    assert channel.posted == [LOSS]
    await Alerts(None).post_recorded(LOSS)
    await Alerts(Channel(TransientError("alert webhook answered 500")).post).post_recorded(LOSS)
    assert "alert webhook answered 500" in caplog.text


def test_generic_document_is_one_flat_object() -> None:
    """The event's name beside its facts."""
    assert document(LOSS, AlertFormat.GENERIC) == {
        "event": "message lost",
        "queue": "submissions",
        "message_id": "m-1",
        "task": None,
        "reason": "MaxDeliveryCountExceeded",
    }


def test_teams_card_shows_every_fact_as_it_is() -> None:
    """As text runs, in which Teams reads no Markdown; what is not known has no line."""
    message = document(LOSS, AlertFormat.TEAMS)
    [attachment] = message["attachments"]
    assert (message["type"], attachment["contentType"]) == (
        "message",
        "application/vnd.microsoft.card.adaptive",
    )
    title, *lines = attachment["content"]["body"]
    assert (title["type"], title["text"]) == ("TextBlock", "Message lost")
    assert {line["type"] for line in lines} == {"RichTextBlock"}
    assert ["".join(run["text"] for run in line["inlines"]) for line in lines] == [
        "queue: submissions",
        "message id: m-1",
        "reason: MaxDeliveryCountExceeded",
    ]


@pytest.mark.parametrize(
    ("blocked", "done_at", "when"),
    [(False, after(420).isoformat(), "about 2026-11-21 10:07 UTC"), (True, None, "once that is over")],
)
async def test_crowd_is_one_alert_that_says_how_much_is_late_and_for_how_long(
    *, blocked: bool, done_at: str | None, when: str
) -> None:
    """And since when, behind what, and when it is done at the present rate."""
    channel = Channel()
    crowd = Crowd(
        behind="Agent drone",
        cause=CrowdCause.CIRCUIT_OPEN,
        since=after(0),
        tasks=2_001,
        found_at=after(240),
        until=after(900),
        blocked=blocked,
    )
    await Alerts(channel.post).alert_crowd(crowd, 1_000)
    [alert] = channel.posted
    assert alert.event == "tasks late together"
    assert (alert.facts["tasks"], alert.facts["since"], alert.facts["behind"]) == (
        2_001,
        after(0).isoformat(),
        "Agent drone",
    )
    assert (alert.facts["minutes"], alert.facts["done_at"]) == (3, done_at)
    assert alert.facts["reason"] == (
        "2001 tasks are late behind Agent drone (circuit open) since 2026-11-21 10:00 UTC;"
        f" at 1000 a minute they take 3 min, {when}"
    )


LIMIT = 2
DOWN = TransientError("alert webhook answered 500")


class MemoryContent:
    """Bytes that instances share; fails while `failing`."""

    def __init__(self) -> None:
        self.content: bytes | None = None
        self.failing = False

    async def read(self) -> bytes | None:
        """Give them."""
        if self.failing:
            raise TransientError("no store")
        return self.content

    async def change[ResultT](self, change: Callable[[bytes | None], tuple[bytes, ResultT]]) -> ResultT:
        """Change them."""
        self.content, result = change(await self.read())
        return result


class Instances:
    """Instances of the application with one webhook, which fails while it has a `failure`."""

    def __init__(self) -> None:
        self.clock, self.shared = FakeClock(), MemoryContent()
        self.posted: list[Alert] = []
        self.failure: Exception | None = None

    def make(self) -> Alerts:
        """Start an instance."""
        return Alerts(self._post, AlertLimit(fake_ports(clock=self.clock, alert_minute=self.shared), LIMIT))

    async def _post(self, alert: Alert) -> None:
        if self.failure is not None:
            raise self.failure
        self.posted.append(alert)

    async def alert(self, number: int = 1, reason: str = "pay: card refused with code") -> None:
        """Take the alert of a task from the queue."""
        message = AnnouncementMessage(
            kind=AnnouncementKind.ALERT,
            id=TaskId(f"task-{number}"),
            workflow="orders",
            state=ProcessState.ERROR,
            epoch=Epoch(2),
            at=self.clock.now(),
            reason=f"{reason} {number}",
        )
        await self.make().alert_task(message.model_dump_json(exclude_none=True).encode())

    async def pass_minutes(self, minutes: float = 1) -> None:
        """Run the timers on two instances after this time."""
        self.clock.advance(60 * minutes)
        for _ in range(2):
            await self.make().post_summary()

    @property
    def events(self) -> Sequence[str]:
        """The names of the posted events."""
        return [each.event for each in self.posted]


@pytest.fixture
def instances() -> Instances:
    """Start no instance yet."""
    return Instances()


async def test_alerts_above_the_limit_are_posted_as_one_summary(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """With their number by cause; each alert has its own line in the log."""
    for number in range(60):
        await instances.alert(number)
    await instances.alert(reason="ship: no stock")
    await instances.make().post_recorded(lost_alert("submissions", "m-1", None, "why"))
    await instances.pass_minutes(0.9)
    assert instances.events == ["operator alert"] * LIMIT
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 61
    await instances.pass_minutes(0.1)
    *_, summary = instances.posted
    assert instances.events == ["operator alert"] * LIMIT + ["more alerts"]
    assert summary.facts["alerts"] == 60
    assert str(summary.facts["causes"]).split("; ") == [
        "operator alert: orders: Error: pay: card refused with code … (58)",
        "operator alert: orders: Error: ship: no stock … (1)",
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
    with pytest.raises(TransientError):
        await instances.pass_minutes()
    instances.failure = None
    await instances.alert()
    await instances.pass_minutes(0)
    assert instances.posted[LIMIT:][0].facts["alerts"] == 4
    assert len(instances.posted) == LIMIT + 1


async def test_alert_that_comes_while_the_summary_is_posted_is_in_the_next(instances: Instances) -> None:
    """The row then still holds the minute of the summary."""
    for number in range(LIMIT + 3):
        await instances.alert(number)
    instances.clock.advance(60)
    limit = AlertLimit(fake_ports(clock=instances.clock, alert_minute=instances.shared), LIMIT)
    counts = []

    async def post(minute: object) -> None:
        counts.append(minute)
        await instances.alert()

    await limit.post_summary(post)
    await instances.pass_minutes(0.9)
    assert len(instances.posted) == LIMIT
    await instances.pass_minutes(0.1)
    assert [each.facts["alerts"] for each in instances.posted[LIMIT:]] == [1]


async def test_two_instances_at_once_lose_no_alert(instances: Instances) -> None:
    """Both post the summary; the later one removes no count of the next minute."""
    for number in range(LIMIT + 3):
        await instances.alert(number)
    instances.clock.advance(60)
    limit = AlertLimit(fake_ports(clock=instances.clock, alert_minute=instances.shared), LIMIT)

    async def post(_: object) -> None:
        await instances.make().post_summary()
        instances.clock.advance(1)
        for number in range(LIMIT + 3):
            await instances.alert(number)

    await limit.post_summary(post)
    await instances.pass_minutes()
    assert [each.facts["alerts"] for each in instances.posted if each.event == "more alerts"] == [3, 3]


async def test_alert_that_is_not_accepted_is_counted(instances: Instances) -> None:
    """Its message does not become a dead letter while the webhook is down."""
    instances.failure = DOWN
    await instances.alert()
    await instances.make().post_recorded(LOSS)
    instances.failure = None
    await instances.pass_minutes()
    [summary] = instances.posted
    assert (summary.facts["alerts"], "message lost: submissions (1)" in str(summary.facts["causes"])) == (
        2,
        True,
    )


async def test_alert_that_is_neither_posted_nor_counted_comes_again(instances: Instances) -> None:
    """An alert without a message has its line in the log."""
    instances.failure, instances.shared.failing = DOWN, True
    with pytest.raises(TransientError):
        await instances.alert()
    await instances.make().post_recorded(LOSS)


async def test_webhook_that_does_not_answer_delays_nobody(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary counts the alert."""
    monkeypatch.setattr("functions.operations.alerts.alerts._POST_SECONDS", 0.01)
    limit = AlertLimit(fake_ports(clock=instances.clock, alert_minute=instances.shared), LIMIT)
    await Alerts(lambda _: asyncio.sleep(3_600), limit).post_recorded(LOSS)
    instances.clock.advance(60)
    with pytest.raises(TransientError):
        await Alerts(lambda _: asyncio.sleep(3_600), limit).post_summary()
    await instances.pass_minutes(0)
    assert [each.facts["causes"] for each in instances.posted] == ["message lost: submissions (1)"]
    async with asyncio.timeout(patience_of(OPERATOR_ALERTS_QUEUE)):  # a queued alert is counted in time, too
        await Alerts(lambda _: asyncio.sleep(3_600), limit).alert_task(BODY)
    await instances.pass_minutes()
    assert instances.posted[-1].facts["alerts"] == 1


async def test_alert_is_posted_singly_while_its_count_does_not_end(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The requests of the store can take a minute."""
    monkeypatch.setattr("functions.operations.alerts.limit._COUNT_SECONDS", 0.01)
    monkeypatch.setattr(instances.shared, "change", lambda _: asyncio.sleep(3_600))
    await instances.make().post_recorded(LOSS)
    assert instances.posted == [LOSS]


async def test_summary_is_posted_once_while_its_counts_cannot_be_removed(
    instances: Instances, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The timer runs every 15 seconds."""
    for number in range(LIMIT + 2):
        await instances.alert(number)
    instances.clock.advance(60)
    alerts = instances.make()
    with monkeypatch.context() as patched:
        patched.setattr(instances.shared, "change", AsyncMock(side_effect=DOWN))
        for _ in range(3):
            with pytest.raises(TransientError):
                await alerts.post_summary()
    await alerts.post_summary()
    await instances.pass_minutes()
    assert instances.events[LIMIT:] == ["more alerts"]


async def test_alerts_are_posted_singly_while_the_row_cannot_be_changed(instances: Instances) -> None:
    """An outage of the store silences no alert of it."""
    instances.shared.failing = True
    for number in range(LIMIT + 2):
        await instances.alert(number)
    assert len(instances.posted) == LIMIT + 2


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
    """The log lines of its alerts remain."""
    instances.shared.content = b"{"
    await instances.pass_minutes()
    await instances.alert()
    assert instances.events == ["operator alert"]


async def test_nothing_is_counted_without_a_webhook(instances: Instances) -> None:
    """The log has all alerts."""
    alerts = Alerts(None, AlertLimit(fake_ports(alert_minute=instances.shared), LIMIT))
    await alerts.post_recorded(lost_alert("submissions", "m-1", None, "why"))
    await alerts.post_summary()
    assert (instances.posted, instances.shared.content) == ([], None)


@given(st.lists(st.integers(0, 900), max_size=40))
async def test_every_alert_is_posted_once_whenever_it_comes(arrivals: list[int]) -> None:
    """Singly or in a summary, with at most the limit of single alerts and one summary a minute."""
    instances, now = Instances(), 0
    for at in sorted(arrivals):
        await instances.pass_minutes((at - now) / 60)
        await instances.alert()
        now = at
    await instances.pass_minutes()
    counted = sum(int(each.facts.get("alerts") or 1) for each in instances.posted)
    assert counted == len(arrivals)


EXPIRED = lost_alert("submissions", "m-1", None, "expired")


async def test_alert_is_posted_as_json(service: Service) -> None:
    """To the very address that the settings name."""
    await Webhook(f"{service.address}/hook/s3cret", None, session=lambda: service.session).post(EXPIRED)
    [request] = service.received
    assert (request.method, request.path) == ("POST", "/hook/s3cret")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body)["event"] == "message lost"


async def test_format_can_be_set(service: Service) -> None:
    """For a Teams webhook behind an address of one's own."""
    await Webhook(service.address, AlertFormat.TEAMS, session=lambda: service.session).post(EXPIRED)
    assert json.loads(service.received[0].body)["type"] == "message"


@pytest.mark.parametrize("status", [302, 404, 500])
async def test_alert_counts_as_taken_only_when_the_answer_says_so(service: Service, status: int) -> None:
    """A redirect is not followed; the address, a secret, is not told."""
    service.answers = [Answer(status, headers={"Location": "/elsewhere"})]
    with pytest.raises(TransientError, match=f"^alert webhook answered {status}$"):
        await _webhook(service, "/s3cret").post(EXPIRED)
    assert {request.path for request in service.received} == {"/s3cret"}
    assert len(service.received) == 4


async def test_service_that_fails_for_a_moment_is_asked_again(service: Service) -> None:
    """The queue would deliver the alert again at once, and not often."""
    service.answers = [Answer(503), Answer(429), Answer()]
    await _webhook(service).post(EXPIRED)
    assert len(service.received) == 3


async def test_address_that_nobody_answers_at_is_a_fault_that_may_pass(service: Service) -> None:
    """And is not told either."""
    service.address = "http://127.0.0.1:1"
    with pytest.raises(TransientError) as fault:
        await _webhook(service, "/s3cret").post(EXPIRED)
    assert "s3cret" not in str(fault.value)
    assert fault.value.__cause__ is None


@pytest.mark.parametrize(
    ("address", "alert_format"),
    [
        ("https://contoso.webhook.office.com/webhookb2/x", AlertFormat.TEAMS),
        ("https://prod-01.westeurope.logic.azure.com:443/workflows/x", AlertFormat.TEAMS),
        ("https://webhook.office.com.example.com/x", AlertFormat.GENERIC),
        ("https://alerts.example.com/x", AlertFormat.GENERIC),
    ],
)
def test_address_tells_the_format(address: str, alert_format: AlertFormat) -> None:
    """Teams is known by its hosts."""
    webhook = Webhook(address, None, session=_no_session)
    assert webhook._format is alert_format


def _webhook(service: Service, path: str = "") -> Webhook:
    return Webhook(service.address + path, None, session=lambda: service.session, first_wait=0.001)


def _no_session() -> aiohttp.ClientSession:
    raise AssertionError("nothing is posted here")
