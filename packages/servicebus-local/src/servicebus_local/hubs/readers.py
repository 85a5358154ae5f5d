"""The readers of one partition in one consumer group: their maximum number, and displacement by epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from servicebus_local.errors import LinkStolenError, QuotaExceededError

#: Limit of Event Hubs for readers without an epoch.
_MAX_READERS = 5


class Reader(Protocol):
    """A client that reads a partition."""

    #: Its owner level; None: it shares the partition with other readers.
    epoch: int | None

    def displace(self, error: LinkStolenError) -> None:
        """Detach it with this error."""


class Readers:
    """The connected readers. An epoch counts only while its reader is connected."""

    def __init__(self) -> None:
        self._readers: list[Reader] = []

    def __iter__(self) -> Iterator[Reader]:
        return iter(list(self._readers))

    def admit(self, reader: Reader) -> None:
        """Add a reader, and displace readers with a lower epoch. Raises OperationError if it is refused."""
        highest = max((each.epoch for each in self._readers if each.epoch is not None), default=None)
        if reader.epoch is None:
            self._check_shared(highest)
        elif highest is not None and highest > reader.epoch:
            raise LinkStolenError(
                f"Receiver 'nil' with a higher epoch '{highest}' already exists. Receiver 'nil' with epoch "
                f"{reader.epoch} cannot be created. Make sure you are creating receiver with increasing "
                "epoch value to ensure connectivity, or ensure all old epoch receivers are closed or "
                "disconnected."
            )
        else:
            self.steal(reader.epoch)
        self._readers.append(reader)

    def remove(self, reader: Reader) -> None:
        """Remove a reader that has disconnected."""
        if reader in self._readers:
            self._readers.remove(reader)

    def steal(self, epoch: int) -> int:
        """Displace all readers, as a new reader with this epoch does, and return their number."""
        displaced, self._readers = self._readers, []
        for reader in displaced:
            own = "nil" if reader.epoch is None else reader.epoch
            reader.displace(
                LinkStolenError(
                    f"New receiver 'nil' with higher epoch of '{epoch}' is created hence current receiver "
                    f"'nil' with epoch '{own}' is getting disconnected. If you are recreating the receiver, "
                    "make sure a higher epoch is used."
                )
            )
        return len(displaced)

    def _check_shared(self, highest: int | None) -> None:
        if highest is not None:
            raise LinkStolenError(
                f"At least one receiver for the endpoint is created with epoch of '{highest}', and so "
                "non-epoch receiver is not allowed. Either reconnect with a higher epoch, or make sure all "
                "epoch receivers are closed or disconnected."
            )
        if len(self._readers) >= _MAX_READERS:
            raise QuotaExceededError(
                f"Exceeded the maximum number of allowed receivers per partition in a consumer group which "
                f"is {_MAX_READERS}."
            )
