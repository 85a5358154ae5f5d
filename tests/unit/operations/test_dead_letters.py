"""Dead letters: every loss is recorded, logged and told, and none is told without end."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from functions.messages.queues import QUEUES
from functions.operations.alerts.alerts import Alert, Alerts, lost_alert
from functions.operations.alerts.queues import DeadLetters
from functions.pattern.epochs import MOST_LOST
from functions.pattern.errors import TransientError
from functions.pattern.events import MessageLost
from functions.pattern.identity import TaskId
from functions.pattern.messages import SchedulerRequest
from functions.pattern.rejected import Labels
from functions.pattern.submission_groups import groups_of
from tests.fakes.clock import FakeClock
from tests.fakes.messages import received
from tests.fakes.ports import fake_ports
from tests.fakes.queues import RecordedRejections, Rejection
from tests.fakes.store import MemoryStateStore
from tests.fakes.tasks import FIRST, pending, told
from tests.fakes.workflows import TASK, submission

REQUEST = SchedulerRequest(task_id=TASK, epoch=FIRST).model_dump_json().encode()
PROPERTIES = {"DeadLetterReason": "MaxDeliveryCountExceeded", "DeadLetterErrorDescription": "10 times"}
REASON = "MaxDeliveryCountExceeded: 10 times"


class Bench:
    """A reader of dead letters, with all that it works on."""

    def __init__(self) -> None:
        self.store = MemoryStateStore(FakeClock())
        self.rejections = RecordedRejections()
        self.alerts: list[Alert] = []
        self.reader = DeadLetters(fake_ports(store=self.store, rejected=self.rejections), Alerts(self.post))

    async def post(self, alert: Alert) -> None:
        """Keep the alert, as the webhook would post it."""
        self.alerts.append(alert)


@pytest.fixture
def bench() -> Bench:
    """Make a reader that has read nothing."""
    return Bench()


def _logged(caplog: pytest.LogCaptureFixture) -> dict[str, str | None]:
    [record] = [each for each in caplog.records if each.levelno == logging.ERROR]
    facts: dict[str, str | None] = json.loads(record.getMessage().removeprefix("message lost "))
    return facts


async def test_orders_of_one_message_are_lost_each_by_itself(bench: Bench) -> None:
    """So each can be sent again, or discarded."""
    orders = [submission(task=TaskId(f"o-{number}")) for number in range(2)]
    [group] = groups_of(orders, [])
    dead = received(group.body, "group", properties=PROPERTIES, subject="delivery")
    await bench.reader.take("submissions", dead)
    assert [(each.message_id, each.body) for each in bench.rejections.all] == [
        (f"group.{number}", order.written) for number, order in enumerate(orders)
    ]
    assert [each.facts["message_id"] for each in bench.alerts] == ["group.0", "group.1"]


async def test_task_keeps_a_bounded_number_of_losses(bench: Bench) -> None:
    """One more is recorded in `Rejected` and alerted like the others."""
    lost = [MessageLost(queue="q", message_id=f"{n}", reason="plain") for n in range(MOST_LOST - 1)]
    bench.store.put(told(pending(), *lost))
    for name in ("last", "more"):
        await bench.reader.take("q", received(REQUEST, name, properties=PROPERTIES))
    stored = await bench.store.load(TASK)
    assert stored is not None
    assert [each.message_id for each in stored.record.lost[-2:]] == [f"{MOST_LOST - 2}", "last"]
    assert bench.alerts == [lost_alert("q", name, TASK, REASON) for name in ("last", "more")]


async def test_loss_is_recorded_logged_and_told(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """With the queue, the reason, and the task that the message was about."""
    bench.store.put(pending())
    await bench.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    assert bench.rejections.all == [
        Rejection("scheduler-requests/$DeadLetterQueue", "task-1.1", REQUEST, REASON)
    ]
    assert _logged(caplog) == {
        "queue": "scheduler-requests",
        "message_id": "task-1.1",
        "task": TASK,
        "reason": REASON,
    }
    assert bench.alerts == [lost_alert("scheduler-requests", "task-1.1", TASK, REASON)]


async def test_loss_stands_on_the_task_once(bench: Bench) -> None:
    """Operators see it where they look; the reader may get the same dead letter again."""
    bench.store.put(pending())
    for _ in range(2):
        await bench.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    stored = await bench.store.load(TASK)
    assert stored is not None
    [lost] = stored.record.lost
    assert (lost.queue, lost.message_id, lost.reason) == ("scheduler-requests", "task-1.1", REASON)
    assert replace(stored.record, lost=()) == pending()


async def test_token_of_a_lost_reply_is_told_nowhere(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """An Agent called its reply by it."""
    bench.store.put(pending())
    reply = json.dumps({"task_id": TASK, "token": "token-of-this-request"}).encode()
    await bench.reader.take("agent-replies", received(reply, "token-of-this-request", properties=PROPERTIES))
    [kept], [lost] = bench.rejections.all, bench.store.record(TASK).lost
    assert (kept.message_id, lost.message_id, _logged(caplog)["message_id"]) == ("…", "…", "…")


async def test_token_of_a_lost_reply_that_is_cut_off_is_told_in_no_id(bench: Bench) -> None:
    """It can't be read, but its token stands there."""
    await bench.reader.take(
        "agent-replies", received(b'{"token": "token-of-this-re', "token-of-this-request")
    )
    assert bench.rejections.all[0].message_id == "…"


@pytest.mark.parametrize(
    "body", [REQUEST, b'{"id":"task-1"}', b'{"task_id":"a|b"}', b"[]", b"{", b"\xff", b""]
)
async def test_task_is_named_only_when_there_is_one(
    bench: Bench, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    """Whatever the body says, or however it is broken."""
    await bench.reader.take("submissions", received(body))
    assert _logged(caplog)["task"] is None
    assert bench.rejections.all[0].reason == "not said"


async def test_lost_alert_is_only_logged(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """An alert about it could be lost as well, and so on."""
    bench.store.put(pending())
    await bench.reader.take("operator-alerts", received(b'{"id":"task-1"}', "a-1", properties=PROPERTIES))
    assert bench.alerts == []
    assert len(bench.rejections.all) == 1
    assert _logged(caplog)["task"] == TASK


async def test_loss_that_cannot_be_recorded_stays_where_it_is(bench: Bench) -> None:
    """The message is not taken, and nothing is told yet."""
    bench.store.failure = TransientError("Table Storage: ServiceRequestError")
    with pytest.raises(TransientError):
        await bench.reader.take("submissions", received(REQUEST, properties=PROPERTIES))
    assert (bench.rejections.all, bench.alerts) == ([], [])


async def test_what_is_lost_is_kept_with_what_is_needed_to_send_it_again(bench: Bench) -> None:
    """A caller may sort its notices by their subjects; why it died is no part of the message."""
    properties = {**PROPERTIES, "tenant": "blue", "weight": 2, "odd": [1]}
    message = received(b"{}", properties=properties, subject="completed", correlation_id="c-7")
    await bench.reader.take("notices-demo", message)
    kept = Labels(subject="completed", correlation_id="c-7", properties={"tenant": "blue", "weight": 2})
    assert bench.rejections.labels == [kept]


@pytest.mark.parametrize("script", ["x", "語", "😀", '"'])
async def test_reason_is_bounded_in_bytes(bench: Bench, script: str) -> None:
    """It goes into rows, whoever wrote it."""
    bench.store.put(pending())
    properties = {"DeadLetterReason": script * 4096}
    await bench.reader.take("scheduler-requests", received(REQUEST, properties=properties))
    [lost] = bench.store.record(TASK).lost
    assert len(json.dumps(lost.reason, ensure_ascii=False).encode()) <= 1024 + 2


async def test_loss_about_a_task_that_cannot_be_read_is_recorded_all_the_same(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """And alerted, with its name; otherwise the dead letter would come again for ever."""
    bench.store.put(pending())
    bench.store.damaged = {TASK}
    await bench.reader.take("scheduler-requests", received(REQUEST, "task-1.1", properties=PROPERTIES))
    assert len(bench.rejections.all) == 1
    assert _logged(caplog)["task"] == TASK


def test_dead_letters_of_every_queue_are_read() -> None:
    """Of all that are defined, so that no message dies unseen."""
    defined = json.loads(Path("infra/queues.json").read_text(encoding="utf-8"))["queues"]
    assert [queue["name"] for queue in defined] == list(QUEUES)
