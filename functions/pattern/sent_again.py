"""Messages that are sent once more: each carries how often, under an id that its queue has not seen."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from functions.pattern.rejected import Content

#: The application properties that count: names that no other sender has for counts of its own.
_PUT_BACK = "counted.put_back"
_ATTEMPTS = "counted.attempts"

#: Characters of the former id and of the digest: Service Bus takes 128, and some count twice there.
_SHOWN_CHARACTERS = 40
_DIGEST_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a message was put back, and since then how often it failed."""

    put_back: int = 0
    attempts: int = 0

    @classmethod
    def of(cls, content: Content) -> Counts:
        """Read what a message carries; one that its sender sent carries none."""
        properties = content.labels.properties
        return cls(_count(properties.get(_PUT_BACK)), _count(properties.get(_ATTEMPTS)))

    def once_put_back(self) -> Counts:
        """Count that the message waits once more: it has not failed since."""
        return Counts(self.put_back + 1)

    def once_failed(self) -> Counts:
        """Count that the message has failed once more."""
        return replace(self, attempts=self.attempts + 1)

    def sent_with(self, message_id: str, content: Content) -> tuple[str, Content]:
        """Give the id and the content with which a message is sent once more."""
        return _another_id(message_id, content, self.put_back, self.attempts), _counted(content, self)


def resent(message_id: str, content: Content, resends: int) -> tuple[str, Content]:
    """Give the id and the content with which an operator sends a message, for the `resends`th time.

    It begins anew: whoever sends it again has mended what was wrong.
    """
    return _another_id(message_id, content, resends), _counted(content, Counts())


def _counted(content: Content, counts: Counts) -> Content:
    ours = {_PUT_BACK: counts.put_back, _ATTEMPTS: counts.attempts}
    kept = {name: each for name, each in content.labels.properties.items() if name not in ours}
    counted = kept | {name: count for name, count in ours.items() if count}
    return replace(content, labels=replace(content.labels, properties=counted))


def _count(carried: object) -> int:
    return carried if type(carried) is int and carried > 0 else 0


def _another_id(message_id: str, content: Content, *counts: int) -> str:
    """Name a message anew, always in the same way: if it is sent again twice, its queue drops the second.

    Not all messages have an id, or one of their own, so the body tells them apart.
    """
    digest = hashlib.sha256(repr((message_id, content.body, counts)).encode()).hexdigest()
    return ".".join(filter(None, (message_id[:_SHOWN_CHARACTERS], digest[:_DIGEST_CHARACTERS])))
