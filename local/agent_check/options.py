"""What `python -m local agent-check` is told."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from functions.core.json_values import json_text
from functions.core.record import NAME_PATTERN
from local.platform import StartRefusedError

#: Asked where no file says what to ask: the payment of the sample order.
SAMPLE_REQUEST = {"customer": "C-1042", "amount": "9.80", "currency": "EUR"}
#: The shortest and the longest lock that a queue can have.
LOCK_SECONDS = (5, 300)


@dataclass(frozen=True, slots=True)
class AgentCheckOptions:
    """Which Agent is checked, and how the kit may look at it.

    `run` starts one process of the Agent, `effects` prints a count for each effect key, `hold` holds up the
    service that the Agent calls, from its first line on until it is ended. `lock` is the queue's, in seconds.
    An Agent with `abandons_unreadable` can't dead-letter: Service Bus does, after its last delivery.
    Of the checks, `only` some may be chosen by their names; the first and the last ones run in any case.
    """

    agent: str
    run: str
    processes: int = 2
    request: dict[str, Any] = field(default_factory=lambda: dict(SAMPLE_REQUEST))
    effects: str | None = None
    hold: str | None = None
    connection: str | None = None
    lock: float = 15.0
    abandons_unreadable: bool = False
    only: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Look at the name, the command and the lock. Raises `StartRefusedError`."""
        if not re.fullmatch(NAME_PATTERN, self.agent):
            raise StartRefusedError(f"'{self.agent}' is not the name of an Agent ({NAME_PATTERN}).")
        if not self.run.strip():
            raise StartRefusedError("--run names no command.")
        least, most = LOCK_SECONDS
        if not least <= self.lock <= most:
            raise StartRefusedError(f"--lock {self.lock:g}: a queue's lock is {least} s to {most // 60} min.")


def read_request(file: Path | None) -> dict[str, Any]:
    """Read what the Agent is asked. Raises `StartRefusedError`."""
    if file is None:
        return dict(SAMPLE_REQUEST)
    try:
        request: dict[str, Any] = from_json(file.read_bytes())
        json_text("request", request)
    except (OSError, ValueError) as fault:
        raise StartRefusedError(f"The request {file} can't be read: {fault}") from None
    return request
