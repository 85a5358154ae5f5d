"""Starting a Scheduler that runs already is harmless, and so is waking one that has ended."""

from __future__ import annotations

from typing import Any

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import StepName
from functions.scheduler.orchestrator import DurableSchedulers
from functions.scheduler.progress import Progress
from tests.fakes.tasks import SECOND
from tests.fakes.workflows import TASK

PAY = StepName("pay")
PROGRESS = Progress(state="Processing", over=False, runs=1, awaited={})


class DurableClient:
    """Keeps what was started, or refuses with the SDK's kind of error."""

    def __init__(self, refusal: str | None = None) -> None:
        self.started: list[tuple[str, str, Any]] = []
        self.raised: list[tuple[str, str, Any]] = []
        self._refusal = refusal

    async def start_new(self, name: str, instance: str, client_input: Any) -> str:
        """Start an instance."""
        if self._refusal is not None:
            raise Exception(self._refusal)  # noqa: TRY002 - the SDK raises nothing more telling
        self.started.append((name, instance, client_input))
        return instance

    async def raise_event(self, instance: str, event: str, data: Any) -> None:
        """Raise an event."""
        if self._refusal is not None:
            raise Exception(self._refusal)  # noqa: TRY002 - the SDK raises nothing more telling
        self.raised.append((instance, event, data))


async def test_instance_is_named_by_task_and_epoch() -> None:
    """A new attempt never meets an old one."""
    client = DurableClient()
    await DurableSchedulers(client).start(TASK, SECOND, [PAY])
    given = {"task": "task-1", "epoch": 2, "queued": ["pay"]}
    assert client.started == [("scheduler", "task-1.2", given)]


async def test_instance_that_runs_already_is_left_to_run() -> None:
    """The message was delivered twice."""
    refusal = "An Orchestration instance with the status Running already exists."
    await DurableSchedulers(DurableClient(refusal)).start(TASK, SECOND, ())


async def test_any_other_failure_is_transient() -> None:
    """The start is tried again, and at last the message is delivered again."""
    with pytest.raises(TransientError, match=r"did not start task-1\.2"):
        await DurableSchedulers(DurableClient("no storage")).start(TASK, SECOND, ())


async def test_event_is_named_by_step_and_epoch() -> None:
    """No event of an instance has the name of another."""
    client = DurableClient()
    await DurableSchedulers(client).wake(TASK, SECOND, PAY, PROGRESS)
    assert client.raised == [("task-1.2", "reply:pay:2:1", PROGRESS)]


@pytest.mark.parametrize(
    "refusal",
    ["Instance with ID task-1.2 is gone: either completed or failed", "No instance with ID task-1.2 found."],
)
async def test_scheduler_that_has_ended_is_not_woken(refusal: str) -> None:
    """What the reply brought is recorded; nobody needs to hear of it."""
    await DurableSchedulers(DurableClient(refusal)).wake(TASK, SECOND, PAY, PROGRESS)


async def test_scheduler_that_cannot_be_woken_now_is_woken_later() -> None:
    """The reply is delivered again."""
    with pytest.raises(TransientError, match=r"did not wake task-1\.2"):
        await DurableSchedulers(DurableClient("no storage")).wake(TASK, SECOND, PAY, PROGRESS)
