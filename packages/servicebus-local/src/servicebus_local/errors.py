"""What the broker refuses, with the error condition and the status that the client turns into an exception.

The conditions are those of Azure Service Bus ("AMQP 1.0 in Azure Service Bus: error codes").
"""

from __future__ import annotations

from typing import ClassVar


class Refused(Exception):  # noqa: N818 - its subclasses are named for what is the matter, as the client names them
    """An operation that the broker does not carry out. The text reaches the client's exception."""

    condition: ClassVar[str] = "amqp:internal-error"
    #: Status of the answer when the operation came through `$management`.
    status: ClassVar[int] = 500


class EntityNotFound(Refused):
    """No queue has this address."""

    condition = "amqp:not-found"
    status = 404


class NotAllowed(Refused):
    """The operation makes no sense for this entity."""

    condition = "amqp:not-allowed"
    status = 400


class NotImplementedHere(Refused):
    """Service Bus can do this, the local broker can not."""

    condition = "amqp:not-implemented"
    status = 501


class ArgumentRefused(Refused):
    """A request that lacks an argument, or has one of the wrong type."""

    condition = "com.microsoft:argument-error"
    status = 400


class MessageTooLarge(Refused):
    """A message or batch above the limit that the link was told."""

    condition = "amqp:link:message-size-exceeded"
    status = 400


class MessageMalformed(Refused):
    """A message whose sections can not be read."""

    condition = "amqp:decode-error"
    status = 400


class QuotaExceeded(Refused):
    """The queue holds as many bytes as it may."""

    condition = "amqp:resource-limit-exceeded"
    status = 403


class LockLost(Refused):
    """The lock ran out, or the message was settled already."""

    condition = "com.microsoft:message-lock-lost"
    status = 410

    def __init__(self) -> None:
        super().__init__(
            "The lock supplied is invalid. Either the lock expired, "
            "or the message has already been removed from the queue."
        )


class MessageNotFound(Refused):
    """No message in the wanted state has this sequence number."""

    condition = "com.microsoft:message-not-found"
    status = 404

    def __init__(self) -> None:
        super().__init__("Failed to lock one or more specified messages. The message does not exist.")


class ServerBusy(Refused):
    """Asked for by a fault: the client should wait and try again."""

    condition = "com.microsoft:server-busy"
    status = 503

    def __init__(self) -> None:
        super().__init__("The service was unable to process the request; please retry the operation.")
