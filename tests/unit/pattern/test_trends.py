"""What happens to tasks, in numbers that can be added up."""

from __future__ import annotations

import random
import zlib
from datetime import timedelta
from itertools import pairwise

import pytest

from functions.pattern.histogram import Histogram
from functions.pattern.identity import StepName
from functions.pattern.occurrences import occurrences
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, Outcome, Remedy
from functions.pattern.supervision import judge
from functions.pattern.trends import Happening, Period, StepTrend, Trend, TrendKey
from tests.fakes.clock import START
from tests.fakes.interventions import overdue_at, recovery
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import SECOND, after, claimed, completed, failed, pending, started, told
from tests.fakes.trends import attempts, trend_of
from tests.fakes.workflows import LINE, TRIP, each, step, workflow

_PROPERTY_BYTES = 64 * 1024


def counted(*records: TaskRecord | None) -> Trend:
    """Count the changes from each of the records to the next."""
    trend = Trend()
    for before, changed in pairwise(records):
        assert changed is not None
        trend.count(occurrences(before, changed))
    return trend


def _course(record: TaskRecord, *events: object) -> Trend:
    records: list[TaskRecord | None] = [None, record]
    for number, event in enumerate(events, 1):
        record = told(record, event, now=after(number))  # type: ignore[arg-type]
        records.append(record)
    return counted(*records)


def _seconds(took: Histogram, part: float = 0.5) -> float:
    found = took.quantile(part)
    assert found is not None
    return found


def test_processed_task_counts_once_with_its_steps() -> None:
    """From submission to the end, each step from dispatch to outcome."""
    trend = _course(
        pending(LINE),
        claimed(),
        started("pick", complete_by=12),
        completed("pick"),
        started("send", complete_by=14),
        completed("send"),
    )
    assert trend.counts == {Happening.ACCEPTED: 1, Happening.PROCESSED: 1}
    assert _seconds(trend.took) == pytest.approx(5, rel=0.1)
    pick = trend.steps[StepName("pick"), Direction.DO]
    assert pick.outcomes == {Outcome.COMPLETED: 1}
    assert _seconds(pick.took) == pytest.approx(1, rel=0.1)
    assert len(trend.steps) == 2


def test_items_count_for_their_step() -> None:
    """Each attempt at one is an attempt at the step."""
    trend = _course(
        pending(workflow(each("call")), weight=2),
        claimed(),
        started("call.0"),
        started("call.1"),
        completed("call.0"),
        completed("call.1"),
    )
    assert trend.steps.keys() == {(StepName("call"), Direction.DO)}
    assert trend.steps[StepName("call"), Direction.DO].outcomes == {Outcome.COMPLETED: 2}


def test_undone_task_is_compensated_and_its_undo_is_told_apart() -> None:
    """A refused step is bad, an undone one is not."""
    trend = _course(
        pending(TRIP),
        claimed(),
        started("flight"),
        completed("flight"),
        started("hotel"),
        failed("hotel"),
        claimed(SECOND),
        started("flight", SECOND),
        completed("flight", SECOND),
    )
    assert trend.counts == {Happening.ACCEPTED: 1, Happening.COMPENSATED: 1}
    steps = {(*name, step.ended, step.bad) for name, step in trend.steps.items()}
    assert steps == {("flight", "do", 1, 0), ("hotel", "do", 1, 1), ("flight", "undo", 1, 0)}
    assert len(trend.took) == 1


def test_task_in_error_has_no_time_to_its_end() -> None:
    """An operator's answer is still to come."""
    held = workflow(step("pay"), remedy=Remedy.HOLD)
    trend = _course(pending(held), claimed(), started("pay"), failed("pay"))
    assert trend.counts == {Happening.ACCEPTED: 1, Happening.ERROR: 1}
    assert len(trend.took) == 0


def test_recovery_is_counted_with_the_step_that_expired() -> None:
    """It is bad, as it was not over at its complete-by."""
    record = told(pending(LINE), claimed(), started("pick", complete_by=12))
    trend = counted(record, told(record, recovery(), now=overdue_at(record)))
    assert trend.counts == {Happening.RECOVERED: 1}
    pick = trend.steps[StepName("pick"), Direction.DO]
    assert (pick.outcomes, pick.bad) == ({Outcome.EXPIRED: 1}, 1)


def test_step_that_may_fail_and_ran_out_of_time_has_expired() -> None:
    """Nobody refused it."""
    flow = workflow(step("mail", on_failure=Remedy.CONTINUE), step("file", "mail"))
    record = told(pending(flow), claimed(), started("mail", complete_by=20))
    ended = judge(record, after(40), POLICY)
    assert ended is not None
    [mail] = counted(record, told(record, ended, now=after(40))).steps.values()
    assert mail.outcomes == {Outcome.EXPIRED: 1}


def test_step_that_was_overtaken_is_not_counted() -> None:
    """It says nothing about its Agent."""
    pair = workflow(step("left", undo=True), step("right"), remedy=Remedy.COMPENSATE)
    trend = _course(
        pending(pair), claimed(), started("left", complete_by=12), started("right"), failed("right")
    )
    assert [name for name, _ in trend.steps] == ["right"]


def test_trends_add_up() -> None:
    """Of several processes, and of several minutes."""
    one = trend_of(accepted=2, processed=1, pick=attempts(2, 1))
    one.add(trend_of(accepted=1, pick=attempts(1), send=attempts(1)))
    assert one.counts == {Happening.ACCEPTED: 3, Happening.PROCESSED: 1}
    steps = {name: (each.ended, each.bad, len(each.took)) for (name, _), each in one.steps.items()}
    assert steps == {"pick": (4, 1, 4), "send": (1, 0, 1)}


def test_what_was_written_is_read_again() -> None:
    """With all counts."""
    trend = trend_of(accepted=2, processed=1, error=1, pick=attempts(2, 1))
    assert Trend.read(trend.written).written == trend.written


@pytest.mark.parametrize(
    "damaged",
    [b"", b"{}", b"[]", b"[1,[],[]]", b'[{"lost":1},[],[]]', b"[{},[1],[]]", b'[{},[],[["a","up",{},[]]]]'],
)
def test_damaged_one_is_refused(damaged: bytes) -> None:
    """Rather than shown."""
    with pytest.raises(ValueError):  # noqa: PT011 - what is wrong with it differs
        Trend.read(damaged)


def _fullest() -> Trend:
    chance = random.Random(7)  # noqa: S311 - for a test
    trend = Trend()
    for number in range(150):
        took = Histogram({bucket: chance.randrange(1, 10**5) for bucket in range(130)})
        name = StepName(f"step-with-a-name-of-some-length-{number}")
        trend.add(Trend(steps={(name, Direction.DO): StepTrend(took=took)}))
    return trend


def test_fullest_trend_fits_into_a_property() -> None:
    """Whatever number of steps its versions have had: the first hundred are told apart."""
    fullest = _fullest()
    assert len(fullest.steps) == 100
    assert len(zlib.compress(fullest.written)) < _PROPERTY_BYTES


def test_periods_begin_in_utc() -> None:
    """A row of a period comes before the others that began with it."""
    begun = [period.start(START).isoformat(timespec="minutes") for period in Period]
    assert begun == ["2026-11-21T10:00+00:00", "2026-11-21T10:00+00:00", "2026-11-21T00:00+00:00"]
    key = TrendKey.of("line", START + timedelta(minutes=5), Period.HOUR)
    assert key < TrendKey("line", key.at, "0" * 32)
