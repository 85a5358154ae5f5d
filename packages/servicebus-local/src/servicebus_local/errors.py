"""Errors of refused operations, with the condition and status that the client turns into an exception.

The conditions are those of Azure Service Bus ("AMQP 1.0 in Azure Service Bus: error codes").
"""

from __future__ import annotations

from typing import ClassVar


class OperationError(Exception):
    """An operation that the broker refuses. The client's exception contains the text."""

    condition: ClassVar[str] = "amqp:internal-error"
    #: Status of the answer to an operation that came through `$management`.
    status: ClassVar[int] = 500


class EntityNotFoundError(OperationError):
    """No queue or hub has this address."""

    condition = "amqp:not-found"
    status = 404


class NotAllowedError(OperationError):
    """The entity does not allow the operation."""

    condition = "amqp:not-allowed"
    status = 400


class NotSupportedError(OperationError):
    """Azure Service Bus supports the operation, the local broker does not."""

    condition = "amqp:not-implemented"
    status = 501


class ArgumentError(OperationError):
    """A request without a required argument, or with one of the wrong type."""

    condition = "com.microsoft:argument-error"
    status = 400


class MessageTooLargeError(OperationError):
    """A message or batch above the size limit of its link."""

    condition = "amqp:link:message-size-exceeded"
    status = 400


class MessageFormatError(OperationError):
    """A message whose sections can't be read."""

    condition = "amqp:decode-error"
    status = 400


class QuotaExceededError(OperationError):
    """The queue is full, or a partition has all the readers that it may have."""

    condition = "amqp:resource-limit-exceeded"
    status = 403


class LockLostError(OperationError):
    """The lock expired, or the message was settled already."""

    condition = "com.microsoft:message-lock-lost"
    status = 410

    def __init__(self) -> None:
        super().__init__(
            "The lock supplied is invalid. Either the lock expired, "
            "or the message has already been removed from the queue."
        )


class MessageNotFoundError(OperationError):
    """No message in the required state has this sequence number."""

    condition = "com.microsoft:message-not-found"
    status = 404

    def __init__(self) -> None:
        super().__init__("Failed to lock one or more specified messages. The message does not exist.")


class PartitionError(OperationError):
    """The hub has no partition with this id."""

    condition = "com.microsoft:argument-out-of-range"
    status = 400


class LinkStolenError(OperationError):
    """Another reader of a partition has, or had, the higher epoch."""

    condition = "amqp:link:stolen"
    status = 409


class ServerBusyError(OperationError):
    """A fault refuses the operation: the client should wait and try again."""

    condition = "com.microsoft:server-busy"
    status = 503

    def __init__(self) -> None:
        super().__init__("The service was unable to process the request; please retry the operation.")
