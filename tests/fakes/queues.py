"""Records what leaves the application: submissions, Scheduler starts, rejected messages."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.rejected import About, Content, Labels, RejectedList, RejectedMessage


class RecordedSubmissions:
    """Records submitted orders. With a `failure` set, it raises it, for some ids or for all."""

    def __init__(self) -> None:
        self.messages: list[SubmissionMessage] = []
        self.failure: Exception | None = None
        self.fails_for: set[TaskId] | None = None

    async def submit(self, message: SubmissionMessage) -> None:
        """Record the message, or raise what the test has set."""
        if self.failure is not None and (self.fails_for is None or message.task_id in self.fails_for):
            raise self.failure
        self.messages.append(message)

    async def submit_all(
        self, messages: Sequence[SubmissionMessage], _traces: Sequence[str | None] = ()
    ) -> Sequence[BaseException | None]:
        """Do the same with each."""
        return await asyncio.gather(*map(self.submit, messages), return_exceptions=True)


class RecordedSchedulers:
    """Records started Scheduler instances and which events woke them; waking fails while `failing`."""

    def __init__(self) -> None:
        self.started: list[tuple[TaskId, Epoch]] = []
        self.queued: list[tuple[StepName, ...]] = []
        self.woken: list[tuple[TaskId, Epoch, StepName, Mapping[str, Any]]] = []
        self.runs: list[int | None] = []
        self.dispatches: list[int] = []
        self.failing = False

    async def start(
        self, task: TaskId, epoch: Epoch, queued: Sequence[StepName], *, run: int | None = None
    ) -> None:
        """Record the start."""
        self.started.append((task, epoch))
        self.runs.append(run)
        self.queued.append(tuple(queued))

    async def wake(
        self,
        task: TaskId,
        epoch: Epoch,
        step: StepName,
        progress: Mapping[str, Any],
        *,
        run: int | None = None,
        dispatch: int = 1,
    ) -> None:
        """Record the event sent to the instance, or raise as Durable Functions does."""
        if self.failing:
            raise TransientError("no Durable Functions")
        self.woken.append((task, epoch, step, progress))
        self.dispatches.append(dispatch)
        self.runs.append(run)


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected message, without what its labels holds."""

    queue: str
    message_id: str
    body: bytes
    reason: str


class RecordedRejections:
    """Records rejected messages; with `failing` set, the service fails."""

    def __init__(self) -> None:
        self.failing = False
        self.all: list[Rejection] = []
        self.labels: list[Labels | None] = []
        self.about: list[About] = []

    async def reject(
        self,
        queue: str,
        message_id: str,
        body: bytes,
        reason: str,
        labels: Labels | None = None,
        *,
        about: About | None = None,
    ) -> None:
        """Record the message and the reason for its rejection."""
        if self.failing:
            raise TransientError("Table Storage: ServiceRequestError")
        self.all.append(Rejection(queue, message_id, body, reason))
        self.labels.append(labels)
        self.about.append(about or About())

    async def listed(self, queues: Sequence[str], most: int) -> RejectedList:
        """List nothing: tests with this double look at what it has recorded."""
        raise NotImplementedError(queues, most)

    async def of_task(self, task: TaskId, most: int) -> RejectedList:
        """List nothing, as above."""
        raise NotImplementedError(task, most)

    async def resending(
        self, message: str, who: str, why: str
    ) -> tuple[RejectedMessage, Content | None] | None:
        """Send nothing again, as above."""
        raise NotImplementedError(message, who, why)

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete nothing: tests with this double do not check ages."""
        raise NotImplementedError(before, most)
