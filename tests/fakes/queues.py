"""What leaves the application, kept to be looked at: submissions, Scheduler starts, rejected messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from functions.pattern.errors import TransientError
from functions.pattern.identity import Epoch, StepName, TaskId
from functions.pattern.messages import SubmissionMessage
from functions.pattern.records import Order


class RecordedSubmissions:
    """Keeps the orders that were submitted. With a `failure` set, it raises it, for some ids or for all."""

    def __init__(self) -> None:
        self.messages: list[SubmissionMessage] = []
        self.failure: Exception | None = None
        self.fails_for: set[TaskId] | None = None

    async def submit(self, message: SubmissionMessage, order: Order) -> None:  # noqa: ARG002 - the port's
        """Keep the message, or raise what the test has set."""
        if self.failure is not None and (self.fails_for is None or message.task_id in self.fails_for):
            raise self.failure
        self.messages.append(message)


class RecordedSchedulers:
    """Keeps which Scheduler instances were started, and woken by what; waking fails while `failing`."""

    def __init__(self) -> None:
        self.started: list[tuple[TaskId, Epoch]] = []
        self.woken: list[tuple[TaskId, Epoch, StepName, Mapping[str, Any]]] = []
        self.failing = False

    async def start(self, task: TaskId, epoch: Epoch) -> None:
        """Keep the start."""
        self.started.append((task, epoch))

    async def wake(self, task: TaskId, epoch: Epoch, step: StepName, progress: Mapping[str, Any]) -> None:
        """Keep what the instance is sent, or raise as Durable Functions does."""
        if self.failing:
            raise TransientError("no Durable Functions")
        self.woken.append((task, epoch, step, progress))


@dataclass(frozen=True, slots=True)
class Rejection:
    """One message that was rejected."""

    queue: str
    message_id: str
    body: bytes
    reason: str


class RecordedRejections:
    """Keeps the messages that were rejected."""

    def __init__(self) -> None:
        self.all: list[Rejection] = []

    async def reject(self, queue: str, message_id: str, body: bytes, reason: str) -> None:
        """Keep the message and why it was rejected."""
        self.all.append(Rejection(queue, message_id, body, reason))

    async def delete_before(self, before: datetime, most: int) -> int:
        """Delete nothing: no test of this one looks at ages."""
        raise NotImplementedError(before, most)
