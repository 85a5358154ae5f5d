"""The handlers of the Scheduler's queues: unreadable messages, deleted tasks, and what a timer deletes."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest

from functions.core.rules import Applied
from functions.core.task_events import OutcomeKind
from functions.messaging.agent_messages import AgentReply
from functions.messaging.message_format import QueueMessage
from functions.messaging.task_messages import RunRequest, addressed
from functions.scheduler.queue_handlers import QueueHandlers
from functions.storage.table_contract import NoSuchTaskError, TransientStorageError
from functions.supervisor.old_rows import delete_old_rows

NOW = datetime(2026, 1, 1, tzinfo=UTC)
RUN = RunRequest(task="t1", epoch=1, run=1)
REPLY: dict[str, Any] = {
    "schema_version": 1,
    "task_id": "t1",
    "step": "card",
    "direction": "do",
    "epoch": 1,
    "start_id": "0123456789abcdef",
    "outcome": "done",
}


class Desk:
    """The handlers, and mocks of all that they call."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.receivers, self.rejected, self.alert = AsyncMock(), AsyncMock(), AsyncMock()
        self.receivers.receive.side_effect = self.receivers.reply.side_effect = fault
        self.receivers.reply.return_value = Applied(cast("Any", None))
        self.time = NOW
        self.handlers = QueueHandlers(self.receivers, self.rejected, alert=self.alert, now=lambda: self.time)

    @property
    def received(self) -> list[Any]:
        """Return the messages and replies that were read."""
        calls = (*self.receivers.receive.await_args_list, *self.receivers.reply.await_args_list)
        return [call.args[0] for call in calls]

    @property
    def messages(self) -> list[tuple[str, str, str | None, str | None]]:
        """Return the rejected messages: queue, reason, task and step."""
        calls = self.rejected.reject.await_args_list
        return [(call.args[0], call.args[2], call.kwargs["task"], call.kwargs["step"]) for call in calls]

    @property
    def alerts(self) -> list[tuple[str | None, str | None]]:
        """Return the task and the step of each alert."""
        return [(call.kwargs["task"], call.kwargs["step"]) for call in self.alert.await_args_list]

    async def reply(self, **changes: Any) -> None:
        """Handle a reply with other fields; None removes one."""
        fields = {name: value for name, value in {**REPLY, **changes}.items() if value is not None}
        await self.handlers.agent_reply(QueueMessage(message_id="m1", body=json.dumps(fields).encode()))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"schema_version": 1, "kind": "run"}', b"\xff"])
async def test_message_that_cannot_be_read_is_rejected(body: bytes) -> None:
    """It harms no other message."""
    desk = Desk()
    await desk.handlers.scheduler_request(QueueMessage(message_id="m1", body=body))
    assert desk.received == []
    assert [queue for queue, *_ in desk.messages] == ["scheduler-requests"]


async def test_message_of_a_deleted_task_has_no_effect() -> None:
    """Every other error has the message handled again."""
    desk = Desk(fault=NoSuchTaskError("t1"))
    await desk.handlers.scheduler_request(addressed(RUN)[1])
    await desk.reply()
    assert (desk.received[0], len(desk.received)) == (RUN, 2)
    desk = Desk(fault=TransientStorageError("no answer"))
    with pytest.raises(TransientStorageError):
        await desk.handlers.scheduler_request(addressed(RUN)[1])
    with pytest.raises(TransientStorageError):
        await desk.reply()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"outcome": "finished"}, "outcome"),
        ({"epoch": "1"}, "epoch"),
        ({"start_id": None}, "start_id"),
        ({"result": {"a": 1}, "error": "no", "outcome": "refused"}, "result is not allowed"),
        ({"result": [1], "epoch": 0}, "result"),
    ],
)
async def test_unreadable_reply_is_rejected_and_alerted(changes: dict[str, Any], reason: str) -> None:
    """With the task and the step that it names."""
    desk = Desk()
    await desk.reply(**changes)
    assert desk.received == []
    [(queue, text, task, step)] = desk.messages
    assert (queue, task, step) == ("agent-replies", "t1", "card")
    assert reason in text
    assert desk.alerts == [("t1", "card")]


@pytest.mark.parametrize(
    "result",
    ["[1]", '"text"', "7", '{"a":' * 300 + "1" + "}" * 300, r'{"a":"\ud83d"}', f'{{"sum":{"9" * 4301}}}'],
    ids=lambda result: result[:10],
)
async def test_reply_whose_result_alone_is_wrong_is_done(result: str) -> None:
    """Its step is known to be done; an operator supplies the result.

    A number may have more digits than Python converts.
    """
    desk = Desk()
    body = f'{json.dumps(REPLY)[:-1]},"result":{result}}}'
    await desk.handlers.agent_reply(QueueMessage(message_id="m1", body=body.encode()))
    [reply] = desk.received
    assert isinstance(reply, AgentReply)
    assert reply.event.kind is OutcomeKind.DONE_WITHOUT_RESULT
    assert (reply.event.error or "").startswith("its result cannot be recorded (")
    assert [(task, step) for _, _, task, step in desk.messages] == [("t1", "card")]


async def test_unreadable_replies_about_one_step_are_alerted_once_an_hour() -> None:
    """Each is rejected."""
    desk = Desk()
    await desk.reply(outcome="finished")
    await desk.reply(outcome="finished")
    await desk.reply(outcome="finished", step="hotel")
    assert [step for _, step in desk.alerts] == ["card", "hotel"]
    desk.time = NOW + timedelta(hours=1)
    await desk.reply(outcome="finished")
    assert [step for _, step in desk.alerts] == ["card", "hotel", "card"]
    assert len(desk.messages) == 4


async def test_old_rows_are_deleted_page_by_page(caplog: pytest.LogCaptureFixture) -> None:
    """A kind whose table fails delays no other."""
    pages, asked = [5_000, 12, 0], list[datetime]()

    async def delete(before: datetime, most: int) -> int:
        asked.append(before)
        return min(most, pages.pop(0))

    async def fail(_before: datetime, _most: int) -> int:
        raise TransientStorageError("no answer")

    with caplog.at_level(logging.INFO, "functions"):
        await delete_old_rows(
            {"counts": (timedelta(days=1), fail), "rejected": (timedelta(days=1), delete)}, lambda: NOW
        )
    assert asked == [NOW - timedelta(days=1)] * 3
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["old rows of counts are not deleted: no answer", 'old rows {"rejected": 5012}']
