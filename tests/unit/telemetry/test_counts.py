"""Tasks, steps, calls and minutes are counted once, where each change passes."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from random import Random

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.trace import SpanKind, StatusCode

from functions.agents.remote import RemoteService
from functions.pattern.definition import Workflow
from functions.pattern.errors import PermanentError
from functions.pattern.events import Event
from functions.pattern.occurrences import TaskCounter
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy
from functions.telemetry.changes import CountedChanges, MinuteCounter
from functions.telemetry.fields import Field
from functions.telemetry.instruments import observe_breakers
from functions.telemetry.spans import span
from tests.fakes.announcer import RecordingAnnouncer
from tests.fakes.clock import START, FakeClock
from tests.fakes.interventions import overdue_at, recovery, resubmission
from tests.fakes.minute_counts import NO_STORE, MemoryMinuteCounts
from tests.fakes.remote_service import Answer
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, skipped, started, told
from tests.fakes.workflows import LINE, TRIP, step, trip, workflow
from tests.unit.agents.breaker.conftest import OPEN_FOR, Instances
from tests.unit.conftest import Service
from tests.unit.telemetry.conftest import Measured, Series, Spans, parent_of, series, traceparent_of

HELD = trip(remedy=Remedy.HOLD)
PAIR = workflow(step("left", undo=True), step("right"), name="pair", remedy=Remedy.COMPENSATE)


class Counted:
    """Changes of one task, announced one after another; each is a second after the last."""

    def __init__(self, record: TaskRecord) -> None:
        self.announcer = RecordingAnnouncer()
        minutes = MinuteCounter(MemoryMinuteCounts(), clock=FakeClock(), new_id=str)
        self.changes = CountedChanges(self.announcer, minutes)
        self.record = record
        self.seconds = 0.0

    async def tell(self, *events: Event) -> None:
        """Let these happen."""
        for event in events:
            self.seconds += 1
            await self._change(told(self.record, event, now=after(self.seconds)))

    async def supervise(self, event: Event) -> None:
        """Let the Supervisor act once the task is overdue."""
        await self._change(told(self.record, event, now=overdue_at(self.record)))

    async def _change(self, changed: TaskRecord) -> None:
        await self.changes.announce(self.record, changed)
        self.record = changed


def _duration(step: str, outcome: str, direction: str = "do") -> Series:
    return series("step.duration", step_agent=step, step_outcome=outcome, step_direction=direction)


async def test_recorded_order_counts_as_submitted(measured: Measured) -> None:
    """Once, when it is new; it is announced as before."""
    counted = Counted(pending(LINE))
    await counted.changes.announce(None, counted.record)
    assert measured.take() == {series("tasks.submitted", task_workflow="line"): 1}
    assert counted.announcer.changes == [(None, counted.record)]


async def test_processed_task_is_counted_and_timed(measured: Measured) -> None:
    """By workflow: each step from its dispatch to its outcome, the task from submission to the end."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12), completed("pick"))
    await counted.tell(started("send", complete_by=14), completed("send"))
    assert measured.take() == {
        _duration("pick", "completed"): 1,
        _duration("send", "completed"): 1,
        series("tasks.processed", task_workflow="line"): 1,
        series("task.duration", task_workflow="line", task_state="Processed"): 5,
    }


async def test_refusal_that_waits_for_an_operator_is_an_error(measured: Measured) -> None:
    """It is no recovery, and neither is what the operator does then."""
    counted = Counted(pending(HELD))
    await counted.tell(claimed(), started("flight"), failed("flight"), resubmission())
    found = measured.take()
    assert found[series("tasks.errors", task_workflow="trip")] == 1
    assert (series("task.duration", task_workflow="trip", task_state="Error")) in found
    assert _duration("flight", "failed") in found
    assert not [name for name, _ in found if name == "tasks.recoveries"]


async def test_compensated_task_is_counted_with_its_undoing(measured: Measured) -> None:
    """What a refusal turned back is no error; undone steps have their own durations."""
    counted = Counted(pending(TRIP))
    await counted.tell(claimed(), started("flight"), completed("flight"))
    await counted.tell(started("hotel"), failed("hotel"), claimed(SECOND))
    await counted.tell(started("flight", SECOND), completed("flight", SECOND))
    found = measured.take()
    assert found[series("tasks.compensated", task_workflow="trip")] == 1
    assert _duration("hotel", "failed") in found
    assert _duration("flight", "completed", "undo") in found
    assert not {name for name, _ in found} & {"tasks.errors", "tasks.recoveries"}


async def test_recovery_is_counted_with_the_step_that_expired(measured: Measured) -> None:
    """The Supervisor's; the step lasted until then."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    await counted.supervise(recovery())
    assert measured.take() == {
        series("tasks.recoveries", task_workflow="line"): 1,
        _duration("pick", "expired"): 10,
    }


async def test_step_overtaken_within_its_time_is_stale(measured: Measured) -> None:
    """When its neighbour is refused, it may still be under way."""
    counted = Counted(pending(PAIR))
    await counted.tell(claimed(), started("left", complete_by=12), started("right", complete_by=13))
    await counted.tell(failed("right"))
    found = measured.take()
    assert (found[_duration("left", "stale")], found[_duration("right", "failed")]) == (2, 1)


async def test_skipped_step_has_no_duration(measured: Measured) -> None:
    """It was never dispatched."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), skipped("pick"))
    assert measured.take() == {}


async def test_step_of_an_older_epoch_is_not_counted_again(measured: Measured) -> None:
    """A step that was under way when its epoch ended is counted then, and not at the next claim."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    await counted.supervise(recovery())
    measured.take()
    await counted._change(told(counted.record, claimed(SECOND, start_by=90), now=after(13)))
    assert measured.take() == {}


async def test_durations_have_bounds_for_seconds(measured: Measured) -> None:
    """From ten milliseconds to hours; the SDK's own are for milliseconds."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12), completed("pick"))
    bounds = measured.bounds("step.duration")
    assert (bounds[0], bounds[-1]) == (0.01, 14_400)


@pytest.mark.parametrize("skew", [-1, -3600])
async def test_clock_that_is_behind_gives_no_negative_time(measured: Measured, skew: float) -> None:
    """Two machines' clocks differ; a duration is zero at the least."""
    counted = Counted(pending(LINE))
    await counted.tell(claimed(), started("pick", complete_by=12))
    counted.seconds = skew - 1
    await counted.tell(completed("pick"))
    assert measured.take()[_duration("pick", "completed")] == 0


_MINUTE = START.replace(second=0, microsecond=0)


class Bench:
    """A process that counts; the clock advances while it sleeps, when the test says so."""

    def __init__(self) -> None:
        self.clock, self.rows, self.ids = FakeClock(), MemoryMinuteCounts(), 0
        self.sleeps: list[float] = []
        self._wakes = asyncio.Semaphore(0)
        self.minutes = MinuteCounter(
            self.rows,
            clock=self.clock,
            new_id=self._new_id,
            sleep=self._sleep,
            random=Random(1),  # noqa: S311 - for a test
        )

    def _new_id(self) -> str:
        self.ids += 1
        return f"row-{self.ids}"

    async def _sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        await self._wakes.acquire()
        self.clock.advance(seconds)

    def accept(self, times: int = 1) -> None:
        """Count accepted tasks."""
        for _ in range(times):
            self.minutes.increment(TaskCounter.ACCEPTED)

    async def pass_minutes(self, minutes: int = 1) -> None:
        """End as many minutes, each with its write."""
        for _ in range(minutes):
            self._wakes.release()
            for _ in range(20):
                await asyncio.sleep(0)

    @property
    def accepted(self) -> dict[datetime, int]:
        """Return the written counts by minute."""
        return {minute: counts[TaskCounter.ACCEPTED] for (minute, _), counts in self.rows.rows.items()}


@pytest.fixture
def bench() -> Bench:
    """Make a process without counts."""
    return Bench()


async def test_many_changes_are_one_row_when_the_minute_is_over(bench: Bench) -> None:
    """Nothing is written before, and no caller waits for the write."""
    bench.accept(times=500)
    await bench.pass_minutes(0)
    assert bench.accepted == {}
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 500}
    [slept] = bench.sleeps
    assert 59 < slept < 70


async def test_process_without_changes_writes_nothing(bench: Bench) -> None:
    """It sleeps only while it has counts."""
    await bench.minutes.settle()
    assert bench.sleeps == []
    bench.accept()
    await bench.pass_minutes(5)
    assert (len(bench.sleeps), len(bench.rows.rows)) == (1, 1)


async def test_current_minute_is_written_after_its_end(bench: Bench) -> None:
    """Each minute has its own row."""
    bench.accept()
    await asyncio.sleep(0)
    bench.clock.advance(60)
    bench.accept(times=3)
    bench.clock.advance(-60)
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 1}
    await bench.pass_minutes()
    assert bench.accepted == {_MINUTE: 1, _MINUTE + timedelta(minutes=1): 3}


async def test_clock_that_is_set_back_overwrites_no_row(bench: Bench) -> None:
    """The second row of a minute has another name."""
    bench.accept(times=2)
    await bench.pass_minutes()
    bench.clock.advance(-30)
    bench.accept()
    await bench.pass_minutes()
    assert sorted(counts[TaskCounter.ACCEPTED] for counts in bench.rows.rows.values()) == [1, 2]
    assert {minute for minute, _ in bench.rows.rows} == {_MINUTE}


async def test_row_is_retried_under_its_name(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """A write whose answer was lost counts once."""
    bench.accept()
    bench.rows.failure = NO_STORE
    await bench.pass_minutes(2)
    assert bench.accepted == {}
    assert "not written, retrying in a minute" in caplog.text
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [*bench.rows.rows] == [(_MINUTE, "row-1")]


async def test_rows_older_than_an_hour_are_dropped(bench: Bench) -> None:
    """The console would not show them, so memory stays bounded in a long outage."""
    bench.rows.failure = NO_STORE
    for _ in range(63):
        bench.accept()
        await bench.pass_minutes()
    bench.rows.failure = None
    await bench.pass_minutes()
    assert [*bench.accepted] == [_MINUTE + timedelta(minutes=number) for number in range(4, 63)]


async def test_defect_costs_one_row(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the row is not retried."""
    bench.rows.failure = ValueError("a defect")
    bench.accept()
    await bench.pass_minutes()
    bench.rows.failure = None
    bench.accept()
    await bench.pass_minutes()
    assert [*bench.accepted.values()] == [1]
    assert "not written" in caplog.text


async def test_each_event_of_a_task_has_its_counter(bench: Bench) -> None:
    """The same call increments the counter of the console and that of OpenTelemetry."""
    changes = CountedChanges(RecordingAnnouncer(), bench.minutes)
    held = workflow(step("pay"), remedy=Remedy.HOLD)
    courses: tuple[tuple[Workflow, list[Event]], ...] = (
        (LINE, [claimed(), started("pick"), completed("pick"), started("send"), completed("send")]),
        (held, [claimed(), started("pay"), failed("pay")]),
        (
            TRIP,
            [
                *(claimed(), started("flight"), completed("flight"), started("hotel"), failed("hotel")),
                *(claimed(SECOND), started("flight", SECOND), completed("flight", SECOND)),
            ],
        ),
    )
    for definition, events in courses:
        record = pending(definition)
        await changes.announce(None, record)
        for number, event in enumerate(events, 1):
            changed = told(record, event, now=after(number))
            await changes.announce(record, changed)
            record = changed
    record = told(pending(LINE), claimed(), started("pick", complete_by=12))
    await changes.announce(record, told(record, recovery(), now=overdue_at(record)))
    await bench.pass_minutes()
    [counts] = bench.rows.rows.values()
    assert counts == {
        TaskCounter.ACCEPTED: 3,
        TaskCounter.PROCESSED: 1,
        TaskCounter.ERROR: 1,
        TaskCounter.COMPENSATED: 1,
        TaskCounter.RECOVERED: 1,
    }


@pytest.fixture
def remote(service: Service) -> RemoteService:
    """Return an Agent's caller of the service."""
    return service.caller(address=f"{service.address}/s3cret")


async def _call(remote: RemoteService) -> None:
    complete_by = FakeClock().now() + timedelta(seconds=10)
    await remote.get("t-1", complete_by=complete_by)


async def test_service_gets_the_trace(remote: RemoteService, service: Service, spans: Spans) -> None:
    """In its header; the span lies below the step's, and the address is told nobody."""
    with span("step payment", {Field.STEP: "payment"}):
        await _call(remote)
    call = spans.one("GET payment")
    assert service.received[0].headers["traceparent"] == traceparent_of(call)
    assert parent_of(call) == traceparent_of(spans.one("step payment"))[36:52]
    assert call.kind is SpanKind.CLIENT
    assert dict(call.attributes or {}) == {
        "peer.service": "payment",
        "http.request.method": "GET",
        "http.response.status_code": 200,
    }


async def test_service_gets_no_header_without_a_trace(remote: RemoteService, service: Service) -> None:
    """As when nothing is exported."""
    await _call(remote)
    assert "traceparent" not in service.received[0].headers


async def test_each_attempt_is_a_span_and_a_retry_is_counted(
    remote: RemoteService, service: Service, spans: Spans, measured: Measured
) -> None:
    """One call that failed, and one that did not; a service sees which attempt it got."""
    service.answers = [Answer(503), Answer()]
    await _call(remote)
    failed, good = spans.all()
    assert (failed.status.status_code, good.status.status_code) == (StatusCode.ERROR, StatusCode.UNSET)
    told = [each.headers["traceparent"] for each in service.received]
    assert told == [traceparent_of(failed), traceparent_of(good)]
    assert measured.take() == {series("remote.retries", peer_service="payment"): 1}


async def test_refusal_fails_the_span_and_is_no_retry(
    remote: RemoteService, service: Service, spans: Spans, measured: Measured
) -> None:
    """Its body is not told."""
    service.answers = [Answer(422, (b'{"detail":"s3cret"}',))]
    with pytest.raises(PermanentError):
        await _call(remote)
    refused = spans.one("GET payment")
    assert (refused.attributes or {})["error.type"] == "422"
    assert "s3cret" not in refused.to_json()
    assert measured.take() == {}


async def test_breaker_shows_its_state() -> None:
    """Closed, open, and half-open while it tries one call."""
    reader = InMemoryMetricReader()
    meter = MeterProvider([reader], shutdown_on_exit=False).get_meter("one application's")
    measured = Measured(reader)
    instances = Instances()
    breaker = instances.start()
    observe_breakers(lambda: {"drone": breaker.state}, meter)
    level = series("breaker.state", peer_service="drone")
    assert measured.levels()[level] == 0
    await instances.open_breaker(breaker)
    assert measured.levels()[level] == 2
    instances.clock.advance(OPEN_FOR)
    instances.drones.fault = None
    probe, answered = await instances.call_held(breaker)
    assert measured.levels()[level] == 1
    answered.set()
    await probe
    assert measured.levels()[level] == 0
