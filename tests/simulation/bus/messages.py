"""Messages on a queue, and as the host hands them to functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False, slots=True)
class QueuedMessage:
    """One message; times are virtual. `locked` is the number of its delivery under way."""

    body: bytes
    message_id: str | None
    subject: str | None
    correlation_id: str | None
    application_properties: Mapping[str, Any]
    available_at: float
    expires_at: float
    number: int = 0
    deliveries: int = 0
    locked: int | None = None

    @property
    def label(self) -> str | None:
        """Give the subject, by its former name."""
        return self.subject

    def get_body(self) -> bytes:
        """Give the body."""
        return self.body


@dataclass(frozen=True, slots=True)
class QueueRules:
    """How a queue treats its messages, in seconds."""

    lock: float
    deliveries: int
    to_live: float
    dead_letters_expired: bool
    #: How long ids are kept to find duplicates; None: they are not looked for.
    remembers_ids: float | None


@dataclass(slots=True)
class SimulatedQueue:
    """A queue, with its dead letters as another."""

    name: str
    rules: QueueRules
    dead: SimulatedQueue | None = None
    messages: list[QueuedMessage] = field(default_factory=list)
    ids: dict[str, float] = field(default_factory=dict)

    def is_duplicate(self, message_id: str | None, now: float) -> bool:
        """Tell whether a message with this id came before, and keep the id."""
        if self.rules.remembers_ids is None or message_id is None:
            return False
        known = self.ids.get(message_id)
        if known is not None and now < known + self.rules.remembers_ids:
            return True
        self.ids[message_id] = now
        return False
