"""Logs the start and the end of a hub's outage once each: 32 partitions lose their links together."""

from __future__ import annotations

import logging

_log = logging.getLogger(__name__)


class Outage:
    """The partitions of one hub that can't be read now."""

    def __init__(self, function: str, hub: str, checkpoints: str) -> None:
        """`checkpoints` is where the partitions' checkpoints are, for the text."""
        self._name = f"function {function}: hub {hub}"
        self._checkpoints = checkpoints
        self._unreadable: set[str] = set()
        self._impossible: set[str] = set()

    def began(self, partition: str, error: Exception | str) -> None:
        """Record the outage of a partition, or of the whole hub (`""`)."""
        if not self._unreadable:
            _log.warning("%s is not reachable: %s", self._name, str(error) or repr(error))
        self._unreadable.add(partition)

    def ended(self, partition: str) -> None:
        """Record the end of the outage of a partition, or of the hub (`""`)."""
        self._impossible.discard(partition)
        if partition in self._unreadable:
            self._unreadable.discard(partition)
            if not self._unreadable:
                _log.info("%s is reachable again", self._name)

    def impossible(self, partition: str, checkpoint: int, last: int) -> None:
        """Log that a partition does not have the event of its checkpoint, so the partition is not read."""
        if partition not in self._impossible:
            self._impossible.add(partition)
            _log.error(
                "%s, partition %s is not read: its checkpoint (%d) lies beyond the end of the hub (%d), "
                "which was recreated or replaced. To read it from the start, stop, delete the blob "
                "%s/checkpoint/%s, or those of all partitions, and start again",
                self._name,
                partition,
                checkpoint,
                last,
                self._checkpoints,
                partition,
            )
