"""The metadata of a message for a function: exactly the fields that Azure passes."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest
from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType

from functions_local.deliveries import Delivery
from functions_local.messaging.metadata import many_delivery, one_delivery

_NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
#: The names of the Service Bus extension, without transactions. It passes no end of a lock, time to live or
#: reason of a dead letter: `locked_until` is None in Azure and here.
_NAMES = {
    *("MessageId", "ContentType", "CorrelationId", "ReplyTo", "ReplyToSessionId", "To", "Subject", "Label"),
    *("SessionId", "PartitionKey", "DeadLetterSource", "LockToken", "DeliveryCount", "SequenceNumber"),
    *("ApplicationProperties", "UserProperties", "EnqueuedTimeUtc", "EnqueuedTime"),
    *("ExpiresAtUtc", "ExpiresAt"),
}


def _message(**facts: Any) -> ServiceBusReceivedMessage:
    """Make a message of which everything is known, but for some facts."""
    texts = {
        *("message_id", "content_type", "correlation_id", "reply_to", "reply_to_session_id", "to", "subject"),
        *("session_id", "partition_key", "dead_letter_source", "dead_letter_reason"),
    }
    message = SimpleNamespace(
        body=[b"body"],
        body_type=AmqpMessageBodyType.DATA,
        lock_token=uuid.uuid4(),
        delivery_count=0,
        sequence_number=1,
        application_properties={},
        enqueued_time_utc=_NOW,
        expires_at_utc=_NOW,
        locked_until_utc=_NOW,
        **(dict.fromkeys(texts, "text") | facts),
    )
    return cast("ServiceBusReceivedMessage", message)


@pytest.mark.parametrize(
    ("delivery", "suffix"),
    [(one_delivery(_message()), ""), (many_delivery([_message(), _message()]), "Array")],
)
def test_metadata_has_the_names_of_azure(delivery: Delivery, suffix: str) -> None:
    """An app that reads another finds out here, not in Azure."""
    assert delivery.metadata.keys() == {name + suffix for name in _NAMES}


def test_missing_properties_are_not_in_the_metadata() -> None:
    """Of a single message; in a batch it is an empty text."""
    lacking = _message(reply_to=None)
    assert _NAMES - one_delivery(lacking).metadata.keys() == {"ReplyTo"}
    assert many_delivery([lacking, _message()]).metadata["ReplyToArray"].value.string == ["", "text"]
