"""An event hub: its partitions, consumer groups, readers, and the end of its events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from servicebus_local.broker.faults import FaultBoard
from servicebus_local.broker.timers import TimerHeap, now_ms
from servicebus_local.errors import EntityNotFoundError, PartitionError
from servicebus_local.hubs.event import EventContent
from servicebus_local.hubs.journal import HubJournal
from servicebus_local.hubs.partition import Partition, Tail
from servicebus_local.hubs.partition_keys import partition_of
from servicebus_local.hubs.readers import Readers
from servicebus_local.hubs.settings import DEFAULT_GROUP, HubSettings


class Hub:
    """Events are appended to its partitions, and read by consumer groups."""

    def __init__(
        self, name: str, settings: HubSettings, journal: HubJournal, tail: Tail, faults: FaultBoard
    ) -> None:
        self.name = name
        #: Lower-case name, as in the log; the key of faults.
        self.key = name.lower()
        self.settings = settings
        self.partitions = [
            Partition(self.key, number, journal, tail) for number in range(settings.partition_count)
        ]
        #: By lower-case consumer group and partition.
        self.readers: defaultdict[tuple[str, int], Readers] = defaultdict(Readers)
        #: Counted since the broker started, for the admin endpoint.
        self.counters: Counter[str] = Counter()
        self._groups = {DEFAULT_GROUP, *(group.lower() for group in settings.consumer_groups)}
        self._journal = journal
        self._faults = faults
        self._turn = 0

    def append(self, contents: Sequence[EventContent], key: str | None, partition: int | None) -> None:
        """Append all events to one partition: `partition`, that of `key`, or the next in rotation."""
        if partition is None:
            partition = self._next_number() if key is None else partition_of(key, len(self.partitions))
        self.partitions[partition].append(contents)
        self.counters["received"] += len(contents)

    def _next_number(self) -> int:
        self._turn = (self._turn + 1) % len(self.partitions)
        return self._turn

    def partition_number(self, text: str) -> int:
        """Return the number of an existing partition. Raises PartitionError."""
        number = int(text) if text.isascii() and text.isdecimal() else -1
        if not 0 <= number < len(self.partitions):
            raise PartitionError(
                "The specified partition is invalid for an EventHub partition sender or receiver. "
                f"It should be between 0 and {len(self.partitions) - 1}."
            )
        return number

    def check_group(self, group: str) -> None:
        """Raise EntityNotFoundError for an unknown consumer group."""
        if group.lower() not in self._groups:
            raise EntityNotFoundError(
                f"The messaging entity '{self.name}/ConsumerGroups/{group}' could not be found."
            )

    def expire(self, number: int | None = None) -> int:
        """Drop all events, or those of one partition, and return how many there were.

        Raises PartitionError.
        """
        partitions = self.partitions if number is None else [self._partition(number)]
        dropped = sum(partition.drop_before(partition.committed) for partition in partitions)
        self.counters["expired"] += dropped
        return dropped

    def steal(self, group: str, number: int) -> int:
        """Displace a partition's readers in a group, and count them. Raises OperationError."""
        self.check_group(group)
        readers = self.readers[group.lower(), self._partition(number).number]
        return readers.steal(max((each.epoch or 0 for each in readers), default=0))

    def _partition(self, number: int) -> Partition:
        return self.partitions[self.partition_number(str(number))]

    def after_commit(self, callback: Callable[..., object], *arguments: Any) -> None:
        """Run a callback after the commit of all earlier writes."""
        self._journal.then(callback, *arguments)

    def check_busy(self) -> None:
        """Raise ServerBusyError if a fault refuses the next operation."""
        self._faults.check_busy(self.key)


_LOOK_MS = 10_000
#: Time between two parts, and events of one partition in a part.
_PAUSE_MS, _PART = 50, 1_000


class Retention:
    """Deletes the events whose retention has passed, as long as its timers run.

    It deletes a part at a time: other clients must not wait for it.
    """

    def __init__(self, hubs: Sequence[Hub], timers: TimerHeap) -> None:
        self._hubs = hubs
        self._timers = timers
        self.look()

    def look(self) -> None:
        """Delete a part of the expired events, and schedule the next check."""
        more = [self._shorten(hub) for hub in self._hubs]
        self._timers.after(_PAUSE_MS if any(more) else _LOOK_MS, self.look)

    def _shorten(self, hub: Hub) -> bool:
        """Delete a part of a hub's expired events, and return whether more remain."""
        since_ms = now_ms() - hub.settings.retention_ms
        fair_share = hub.settings.max_bytes // len(hub.partitions)
        more = False
        for partition in hub.partitions:
            first = partition.first_kept(since_ms, fair_share)
            dropped = partition.drop_before(min(first, partition.begin + _PART))
            hub.counters["expired"] += dropped
            more = more or partition.begin < first
        return more
