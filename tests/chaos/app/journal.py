"""What this host asks Agents behind queues for, in a file: a row has only the latest dispatch of a step."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel

from functions.bus.messages import QueuedMessages
from functions.pattern.agent_messages import AgentRequest


class AskedStep(BaseModel):
    """A step that its Agent was asked to do, or to undo, in an epoch, until `complete_by`.

    It was asked `at` that time, by the monotonic clock: that of its host may be wrong.
    """

    task: str
    step: str
    direction: str
    epoch: int
    complete_by: datetime
    at: float


def journal_requests(file: Path) -> None:
    """Write each request into the file before it is sent."""
    ask = QueuedMessages.ask

    async def journaled(messages: QueuedMessages, agent: str, request: AgentRequest) -> None:
        asked = AskedStep(
            task=request.task_id,
            step=request.of_step,
            direction=request.direction,
            epoch=request.epoch,
            complete_by=request.complete_by,
            at=time.monotonic(),
        )
        with file.open("a", encoding="utf-8") as journal:
            journal.write(f"{asked.model_dump_json()}\n")
        await ask(messages, agent, request)

    QueuedMessages.ask = journaled  # type: ignore[assignment,method-assign]


def read_journals(files: Iterable[Path]) -> Iterator[AskedStep]:
    """Read what hosts have asked for."""
    for file in files:
        if file.exists():
            yield from map(AskedStep.model_validate_json, file.read_text(encoding="utf-8").splitlines())
