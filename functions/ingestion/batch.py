"""A batch of events: each becomes a task or is set aside, and only a service that fails holds it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate

from functions.ingestion.events import MOST_EVENT_BYTES, HubEvent
from functions.ingestion.gaps import Gaps
from functions.ingestion.known_orders import KnownOrders
from functions.ingestion.pace import Pace
from functions.ingestion.starts import BoundedStarts
from functions.messages.blueprint import process
from functions.messages.queues import hub_source
from functions.messages.reading import content_of
from functions.pattern.errors import TransientError, as_error
from functions.pattern.identity import TaskId
from functions.pattern.ports import Ports, SchedulerStarts
from functions.pattern.store_ports import KnownOrder
from functions.pattern.waiting import within
from functions.submission.intake import Intake
from functions.submission.origin import Disposition, Origin, Taken
from functions.telemetry.event_batches import BatchFigures, measure_batch

#: SchedulerStarts that are started at one time, by all partitions of this instance.
_STARTS_AT_ONCE = 64
#: Batches that are recorded at one time: enough to fill the transactions of all shards. More would only wait
#: there, and have what tasks under way write wait behind them.
_BATCHES_AT_ONCE = 4
#: Seconds for which one event is tried in one invocation; the host's retry policy goes on after that.
_PATIENCE = 45
#: Seconds in which an event is set aside.
_ASIDE_SECONDS = 12
#: Bytes that are parsed before others get a turn.
_TURN_BYTES = 64 * 1024
#: From this many events on, a fault of more than half of them is ours.
_FEWEST_TO_JUDGE = 10

_log = logging.getLogger(__name__)

#: Tells operators that an event was set aside because of a defect: hub, its id, its task, and the reason.
type AlertLost = Callable[[str, str, TaskId | None, str], Awaitable[None]]


class EventBatches:
    """Takes batches of one hub. When `take` returns, each event is recorded or set aside: then it is done."""

    def __init__(
        self,
        hub: str,
        intake: Intake,
        ports: Ports,
        *,
        pace: Pace,
        gaps: Gaps,
        known: KnownOrders,
        alert: AlertLost,
        turn_within: float,
    ) -> None:
        """Wait for `turn_within` seconds at most until a batch is recorded, beside what is paced."""
        self._source = hub_source(hub)
        self._intake = intake
        self._rejected = ports.rejected
        self._clock = ports.clock
        self._pace = pace
        self._gaps = gaps
        self._known = known
        self._alert = alert
        self._starts = asyncio.Semaphore(_STARTS_AT_ONCE)
        self._turns = asyncio.Semaphore(_BATCHES_AT_ONCE)
        self._turn_within = turn_within

    async def take(self, events: Sequence[HubEvent], schedulers: SchedulerStarts) -> None:
        """Take a batch of one partition.

        Raises what went wrong when a service failed, or when the fault is ours: then the batch comes again.
        """
        partition = events[0].partition
        paced = await self._pace.wait(partition)
        await within(self._turn_within, self._turns.acquire())
        try:
            await self._take_paced(partition, events, schedulers, paced)
        finally:
            self._turns.release()

    async def _take_paced(
        self, partition: str, events: Sequence[HubEvent], schedulers: SchedulerStarts, paced: float
    ) -> None:
        await self._gaps.check(partition, events[0].sequence, events[-1].sequence)
        known = await self._known.among(partition, events)
        self._known.learned(partition, all_new=False)  # of a batch that is cut short, some may be recorded
        results = await self._take_each(events, known, BoundedStarts(schedulers, self._starts))
        taken = [each for each in results if isinstance(each, Taken)]
        new = [
            each.task for each in taken if each.disposition is Disposition.RECORDED and each.task is not None
        ]
        self._pace.recorded(partition, new)
        age = (self._clock.now() - events[0].enqueued_at).total_seconds()
        outcomes = [each.disposition for each in taken]
        measure_batch(self._source, BatchFigures(outcomes=outcomes, age=max(0.0, age), paced=paced))
        failed = await self._settle(events, results)
        if failed:
            raise ExceptionGroup(f"partition {partition}: events could not be taken, and come again", failed)
        self._known.learned(partition, all_new=Disposition.KNOWN not in outcomes)

    async def _take_each(
        self, events: Sequence[HubEvent], known: Mapping[TaskId, KnownOrder], schedulers: SchedulerStarts
    ) -> list[Taken | BaseException]:
        """Take all at once, in their order: those of one id are admitted one after another."""
        turns = (size // _TURN_BYTES for size in accumulate(len(each.body) for each in events))
        return await asyncio.gather(
            *(self._take(event, turn, known, schedulers) for event, turn in zip(events, turns, strict=True)),
            return_exceptions=True,
        )

    async def _take(
        self, event: HubEvent, turn: int, known: Mapping[TaskId, KnownOrder], schedulers: SchedulerStarts
    ) -> Taken:
        for _ in range(turn):  # large bodies would be parsed in one go
            await asyncio.sleep(0)
        return await process(
            self._source, event, partial(self._admit, event, known, schedulers), patience=_PATIENCE
        )

    async def _admit(
        self, event: HubEvent, known: Mapping[TaskId, KnownOrder], schedulers: SchedulerStarts
    ) -> Taken:
        if event.is_too_large:
            reason = f"an event of more than {MOST_EVENT_BYTES} bytes is no order"
            await self._set_aside(event, reason)
            return Taken(Disposition.REJECTED)
        origin = Origin(name=self._source, enqueued_at=event.enqueued_at, known=known)
        return await self._intake.take(event.message_id, content_of(event), schedulers, origin)

    async def _settle(
        self, events: Sequence[HubEvent], results: Sequence[Taken | BaseException]
    ) -> list[Exception]:
        """Set aside what failed by a defect, unless most did or the batch comes again; give what must."""
        faults = [
            (event, each)
            for event, each in zip(events, results, strict=True)
            if isinstance(each, Exception) and not isinstance(each, TransientError)
        ]
        raised = (each for each in results if isinstance(each, BaseException))
        failed = [as_error(each) for each in raised if _is_interrupted(each)]
        if len(events) >= _FEWEST_TO_JUDGE and 2 * len(faults) > len(events):
            return [*failed, *(fault for _, fault in faults)]
        if failed:
            return failed
        aside = (within(_ASIDE_SECONDS, self._give_up(event, fault)) for event, fault in faults)
        left = await asyncio.gather(*aside, return_exceptions=True)
        return [as_error(each) for each in left if each is not None]

    async def _give_up(self, event: HubEvent, fault: Exception) -> None:
        """Set an event aside of which nobody foresaw what happens: it would hold its partition for ever."""
        reason = f"failed unforeseen: {type(fault).__name__}"
        _log.error("event %s of %s %s", event.message_id, self._source, reason, exc_info=fault)
        await self._set_aside(event, reason)
        await self._alert(self._source, event.message_id, event.task, reason)

    async def _set_aside(self, event: HubEvent, reason: str) -> None:
        content = content_of(event)
        await self._rejected.reject(self._source, event.message_id, content.body, reason, content.labels)


def _is_interrupted(raised: BaseException) -> bool:
    """Tell whether a service failed, or the work was cancelled: then nothing is known against the event."""
    return isinstance(raised, TransientError) or not isinstance(raised, Exception)
