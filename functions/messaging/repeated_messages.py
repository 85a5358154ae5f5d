"""Messages that the application sends to their queue again, with the counts in their properties."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from functions.messaging.message_format import DIGEST_CHARACTERS, MOST_MESSAGE_BYTES, QueueMessage, size_of

#: Properties that count how often a message was put back, and how often it failed since then.
_PUT_BACK, _ATTEMPTS = "counted.put_back", "counted.attempts"
#: Bytes of properties that a copy keeps: a queue accepts 64 KB, and an event hub more.
_MOST_PROPERTY_BYTES = 32 * 1024


@dataclass(frozen=True, slots=True)
class DeliveryCounts:
    """How often the application sent a message to its queue again: because it waits, and after a failure."""

    put_back: int = 0
    attempts: int = 0

    @classmethod
    def of(cls, message: QueueMessage) -> DeliveryCounts:
        """Return the counts in the properties of a message. A message of another sender has none."""
        counts = (message.properties.get(name) for name in (_PUT_BACK, _ATTEMPTS))
        return cls(*(each if type(each) is int and each > 0 else 0 for each in counts))


def copy_of(message: QueueMessage, counts: DeliveryCounts, resends: int = 0) -> QueueMessage:
    """Return a message to be sent again with these counts, `resends` times by operators.

    Its id is the same in each repetition, and duplicate detection has not seen it before. The body is a part
    of the id, because a sender may use one id twice. A message that is nearly too large loses its labels.
    """
    marks = repr((message.message_id, message.body, counts.put_back, counts.attempts, resends))
    digest = hashlib.sha256(marks.encode()).hexdigest()[:DIGEST_CHARACTERS]
    is_large = len(message.body) <= MOST_MESSAGE_BYTES < message.size
    if is_large or size_of(message.properties) > _MOST_PROPERTY_BYTES:
        message = replace(message, subject=None, correlation_id=None, properties={})
    properties = {
        name: each for name, each in message.properties.items() if name not in {_PUT_BACK, _ATTEMPTS}
    }
    counted = {_PUT_BACK: counts.put_back, _ATTEMPTS: counts.attempts}
    properties |= {name: count for name, count in counted.items() if count}
    return replace(
        message, message_id=f"{message.message_id[:40]}.{digest}".lstrip("."), properties=properties
    )
