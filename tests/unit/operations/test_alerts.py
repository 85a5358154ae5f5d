"""Alerts: logged always, posted where there is a channel, and delivered again when that fails."""

from __future__ import annotations

import json
import logging

import pytest

from functions.operations.alerts.alerts import (
    Alert,
    AlertFormat,
    Alerts,
    NotAnAlertError,
    document,
    lost_alert,
    task_alert,
)
from functions.pattern.crowds import CrowdCause
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import AnnouncementMessage
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.clock import START
from tests.fakes.tasks import after

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
