"""Ids of messages that are sent once more: duplicate detection must not drop one, and each says how often."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

#: A message id holds at most 128 characters (Service Bus); up to eight are the counts'.
_MOST_FIRST_CHARACTERS = 120
_SHORTENED_CHARACTERS = 64

_COUNTS = re.compile(r"(?:\.p([0-9]{1,2}))?(?:\.a([0-9]{1,2}))?\Z")


@dataclass(frozen=True, slots=True)
class MessageId:
    """A message's id, with what it counts: how often it was put back, and since then how often it failed.

    What an operator sends again begins anew: its id goes on behind the counts, which are a part of `first`.
    """

    first: str
    put_back: int = 0
    attempts: int = 0

    @classmethod
    def read(cls, text: str) -> MessageId:
        """Read an id, which may be of any sender."""
        first, put_back, attempts, _ = _COUNTS.split(text, maxsplit=1)
        return cls(first[:_MOST_FIRST_CHARACTERS], int(put_back or 0), int(attempts or 0))

    def __str__(self) -> str:
        put_back = f".p{self.put_back}" if self.put_back else ""
        return f"{self.first}{put_back}{f'.a{self.attempts}' if self.attempts else ''}"

    def once_put_back(self) -> MessageId:
        """Name the message when it waits once more."""
        return replace(self, put_back=self.put_back + 1, attempts=0)

    def once_failed(self) -> MessageId:
        """Name the message when it has failed once more."""
        return replace(self, attempts=self.attempts + 1)


def resent_as(message_id: str, resends: int) -> str:
    """Name a message that an operator sends again, for the `resends`th time."""
    again = f"{message_id}.r{resends}"
    if len(again) <= _MOST_FIRST_CHARACTERS:
        return again
    digest = hashlib.sha256(message_id.encode()).hexdigest()[:32]
    return f"{message_id[:_SHORTENED_CHARACTERS]}.{digest}.r{resends}"
