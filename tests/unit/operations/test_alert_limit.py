"""At most `ALERTS_PER_MINUTE` alerts are posted singly over all instances; a summary counts the others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from functions.operations.alerts.alerts import Alert, Alerts, lost_alert
from functions.operations.alerts.limit import AlertLimit
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.messages import AnnouncementMessage
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports

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


async def test_alert_that_fails_again_and_again_is_counted(instances: Instances) -> None:
    """It does not become a dead letter while the webhook is down."""
    instances.failure = DOWN
    for _ in range(LIMIT):
        with pytest.raises(TransientError):
            await instances.alert()
    await instances.alert()
    instances.failure = None
    await instances.pass_minutes()
    assert [each.facts["alerts"] for each in instances.posted] == [1]


async def test_alert_without_a_message_is_counted_when_it_fails(instances: Instances) -> None:
    """Nothing delivers it again."""
    instances.failure = DOWN
    await instances.make().post_recorded(lost_alert("submissions", "m-1", None, "why"))
    instances.failure = None
    await instances.pass_minutes()
    assert [each.facts["causes"] for each in instances.posted] == ["message lost: submissions (1)"]


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
