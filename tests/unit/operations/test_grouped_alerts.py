"""Alerts of one cause are posted as one with a count, over all instances, and none is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from functions.operations.alerts.alerts import Alert, Alerts
from functions.operations.alerts.groups import AlertGroups
from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, TaskId
from functions.pattern.messages import AnnouncementMessage
from functions.pattern.states import AnnouncementKind, ProcessState
from tests.fakes.clock import FakeClock
from tests.fakes.ports import fake_ports

SINGLY = 2


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
    """Instances of the application with one webhook, which refuses while it has a `failure`."""

    def __init__(self) -> None:
        self.clock, self.shared = FakeClock(), MemoryContent()
        self.posted: list[Alert] = []
        self.failure: Exception | None = None

    def make(self) -> Alerts:
        """Start one."""
        ports = fake_ports(clock=self.clock, alert_groups=self.shared)
        return Alerts(self._post, AlertGroups(ports, SINGLY))

    async def _post(self, alert: Alert) -> None:
        if self.failure is not None:
            raise self.failure
        self.posted.append(alert)

    def body(self, number: int) -> bytes:
        """Give the alert of a task; all have failed for one cause."""
        message = AnnouncementMessage(
            kind=AnnouncementKind.ALERT,
            id=TaskId(f"task-{number}"),
            workflow="orders",
            state=ProcessState.ERROR,
            epoch=Epoch(2),
            at=self.clock.now(),
            reason=f"payment: card of task-{number} refused with code {number}",
        )
        return message.model_dump_json(exclude_none=True).encode()


@pytest.fixture
def instances() -> Instances:
    """Start none yet."""
    return Instances()


async def test_many_tasks_that_fail_for_one_cause_are_posted_as_one_with_their_count(
    instances: Instances, caplog: pytest.LogCaptureFixture
) -> None:
    """But for the first; each has its line in the log, whatever is posted."""
    for number in range(60):
        await instances.make().alert_task(instances.body(number))
    assert [each.event for each in instances.posted] == ["operator alert"] * SINGLY
    assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 60
    instances.clock.advance(300)
    for _ in range(2):
        await instances.make().post_groups()
    *_, together = instances.posted
    assert len(instances.posted) == SINGLY + 1
    assert (together.event, together.facts["tasks"], together.facts["workflow"]) == (
        "operator alerts",
        58,
        "orders",
    )
    assert together.facts["reason"] == "payment: card of … refused with code …"
    assert str(together.facts["named"]).startswith("task-2 (epoch 2), task-3 (epoch 2)")


async def test_group_that_is_not_taken_is_posted_again(instances: Instances) -> None:
    """It is forgotten when it was taken, not before."""
    for number in range(5):
        await instances.make().alert_task(instances.body(number))
    instances.clock.advance(300)
    instances.failure = TransientError("alert webhook answered 500")
    with pytest.raises(TransientError):
        await instances.make().post_groups()
    instances.failure = None
    await instances.make().post_groups()
    assert instances.posted[-1].facts["tasks"] == 3


async def test_alert_that_is_not_taken_again_and_again_comes_to_wait(instances: Instances) -> None:
    """Rather than die on its queue while the webhook is down."""
    instances.failure = TransientError("alert webhook answered 500")
    for _ in range(SINGLY):
        with pytest.raises(TransientError):
            await instances.make().alert_task(instances.body(1))
    await instances.make().alert_task(instances.body(1))
    instances.failure = None
    instances.clock.advance(300)
    await instances.make().post_groups()
    assert [each.facts["named"] for each in instances.posted] == ["task-1 (epoch 2)"]


async def test_alert_that_cannot_be_grouped_is_posted_by_itself(instances: Instances) -> None:
    """The store does not answer: that must not silence the alerts of it."""
    instances.shared.failing = True
    for number in range(4):
        await instances.make().alert_task(instances.body(number))
    assert len(instances.posted) == 4


async def test_without_a_webhook_nothing_is_kept(instances: Instances) -> None:
    """The log has it all."""
    alerts = Alerts(None, AlertGroups(fake_ports(), SINGLY))
    await alerts.alert_task(instances.body(1))
    await alerts.post_groups()
    assert instances.posted == []
