"""A function's input from Service Bus messages: their bodies and the trigger metadata.

Names and kinds are those of the Service Bus extension. `UserProperties` (`UserPropertiesArray` for many) must
be present: the SDK uses it to distinguish one message from many. Times have no zone, so the SDK makes naive
datetimes of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from azure.servicebus import ServiceBusReceivedMessage
from azure.servicebus.amqp import AmqpMessageBodyType

from functions_local.deliveries import Delivery, json_data, plain, plain_properties, utc_text
from functions_local.protos import TypedData, byte_strings, strings


@dataclass(frozen=True, slots=True)
class _Facts:
    """One message's metadata before it is wrapped: texts, and values that are sent as JSON."""

    texts: Mapping[str, str | None]
    values: Mapping[str, Any]


def one_delivery(message: ServiceBusReceivedMessage) -> Delivery:
    """Make the input of a function that takes one message."""
    body, facts = _body(message), _facts(message)
    text = _as_text(body)
    metadata = {name: TypedData(string=value) for name, value in facts.texts.items() if value is not None}
    metadata |= {name: json_data(value) for name, value in facts.values.items() if value is not None}
    return Delivery(TypedData(bytes=body) if text is None else TypedData(string=text), metadata)


def many_delivery(messages: Sequence[ServiceBusReceivedMessage]) -> Delivery:
    """Make the input of a function that takes a list: names end in `Array`, a missing text is empty."""
    bodies = [_body(message) for message in messages]
    texts = [_as_text(body) for body in bodies]
    readable = [text for text in texts if text is not None]
    facts = [_facts(message) for message in messages]
    metadata = {
        f"{name}Array": strings([fact.texts[name] or "" for fact in facts]) for name in facts[0].texts
    }
    metadata |= {f"{name}Array": json_data([fact.values[name] for fact in facts]) for name in facts[0].values}
    return Delivery(strings(readable) if len(readable) == len(bodies) else byte_strings(bodies), metadata)


def text_as_delivery(text: str, *, many: bool) -> Delivery:
    """Make the input of a manual run: one message that was never in a queue."""
    if many:
        return Delivery(strings([text]), {"UserPropertiesArray": json_data([{}])})
    return Delivery(TypedData(string=text), {"UserProperties": json_data({})})


def _facts(message: ServiceBusReceivedMessage) -> _Facts:
    properties = plain_properties(message.application_properties)
    enqueued, expires = message.enqueued_time_utc, message.expires_at_utc
    subject = message.subject
    return _Facts(
        texts={
            "MessageId": message.message_id,
            "ContentType": message.content_type,
            "CorrelationId": message.correlation_id,
            "ReplyTo": message.reply_to,
            "ReplyToSessionId": message.reply_to_session_id,
            "To": message.to,
            "Subject": subject,
            "Label": subject,
            "SessionId": message.session_id,
            "PartitionKey": message.partition_key,
            "DeadLetterSource": message.dead_letter_source,
            "LockToken": str(message.lock_token),
        },
        values={
            # The SDK counts earlier deliveries only, the extension also this one.
            "DeliveryCount": (message.delivery_count or 0) + 1,
            "SequenceNumber": message.sequence_number,
            "ApplicationProperties": properties,
            "UserProperties": properties,
            "EnqueuedTimeUtc": utc_text(enqueued),
            "EnqueuedTime": utc_text(enqueued, zone="+00:00"),
            "ExpiresAtUtc": utc_text(expires),
            "ExpiresAt": utc_text(expires, zone="+00:00"),
        },
    )


def _body(message: ServiceBusReceivedMessage) -> bytes:
    match message.body_type:
        case AmqpMessageBodyType.DATA:
            return b"".join(message.body)
        case AmqpMessageBodyType.VALUE:
            value = message.body if isinstance(message.body, bytes | str) else json.dumps(plain(message.body))
            return value if isinstance(value, bytes) else value.encode()
        case _:
            return json.dumps([plain(item) for part in message.body for item in part]).encode()


def _as_text(body: bytes) -> str | None:
    """Decode a body, as the Azure host does; None if it is not UTF-8."""
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None
