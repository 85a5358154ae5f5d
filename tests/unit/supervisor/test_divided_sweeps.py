"""What the timer's sweep has no time for goes on elsewhere, by shards: nothing is lost, or done twice."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from functions.pattern.errors import TransientError
from functions.pattern.identity import TaskId
from functions.pattern.messages import SWEEPS_QUEUE, SweepKind, SweepMessage
from functions.pattern.shared_rows import Chore
from functions.supervisor import shard_sweep, sweep
from functions.supervisor.sweeping import SweepReport
from tests.fakes.clock import START
from tests.fakes.supervision import POLICY
from tests.fakes.tasks import pending
from tests.fakes.workflows import LINE
from tests.unit.supervisor.bench import Bench

#: More than a sweep of the timer has pages for here, in either shard.
_MANY = 450


@pytest.fixture(autouse=True)
def _one_page_of_each_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "_PAGES", 1)


def _bench(tasks: int = _MANY) -> Bench:
    bench = Bench()
    for number in range(tasks):
        bench.store.put(pending(LINE, TaskId(f"task-{number:04}")))
    bench.clock.advance(POLICY.start_within.total_seconds() + 6)
    return bench


def _messages(bench: Bench) -> list[SweepMessage]:
    assert {queue for queue, *_ in bench.postbox.sent} <= {SWEEPS_QUEUE}
    return [SweepMessage.model_validate_json(content.body) for _, _, content, _ in bench.postbox.sent]


async def _take(bench: Bench, message: SweepMessage) -> SweepReport | None:
    report = await bench.all_of("another").shards.take("id", message.model_dump_json().encode())
    assert report is None or isinstance(report, SweepReport)
    return report


async def _take_all(bench: Bench) -> int:
    """Take messages until there is none, and give how many these were."""
    taken = 0
    while bench.postbox.sent:
        [message, *_] = _messages(bench)
        del bench.postbox.sent[0]
        await _take(bench, message)
        taken += 1
    return taken


def _extended(bench: Bench) -> Counter[int]:
    extensions = [record.task.extended for record in bench.store.records()]
    return Counter(0 if each is None else each.times for each in extensions)


async def test_what_the_timer_comes_to_by_itself_needs_no_message() -> None:
    """Neither is anything read or written for it."""
    bench = _bench(tasks=120)
    assert not (await bench.sweep()).unfinished
    assert (bench.postbox.sent, await bench.heartbeat.latest(Chore.SHARD_SWEEP, 0)) == ([], None)


async def test_rest_of_each_shard_goes_on_from_where_the_timer_came_to() -> None:
    """Each task has its extension, or its turn, once; turns are the timer's to give."""
    bench = _bench()
    first = await bench.sweep()
    assert (first.unfinished, first.overdue) == (True, 200)
    messages = _messages(bench)
    assert {(each.kind, each.shard, each.abreast) for each in messages} == {
        (SweepKind.DUE, 0, 2),
        (SweepKind.DUE, 1, 2),
    }
    assert await _take_all(bench) == 2
    assert _extended(bench) == {1: _MANY}
    assert {record.task.failure_count for record in bench.store.records()} == {0}


async def test_message_that_comes_again_does_nothing_twice() -> None:
    """Whether its shard is done by then, or a newer round has begun."""
    bench = _bench()
    await bench.sweep()
    messages = _messages(bench)
    await _take_all(bench)
    assert [await _take(bench, each) for each in messages] == [None, None]
    older = messages[0].model_copy(update={"round": messages[0].round - timedelta(seconds=30)})
    assert await _take(bench, older) is None
    assert _extended(bench) == {1: _MANY}


@pytest.mark.parametrize("cut", range(2))
async def test_host_that_is_killed_between_messages_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Its message comes again, and goes on from where it began."""
    monkeypatch.setattr(shard_sweep, "_PAGES", 1)
    bench = _bench()
    await bench.sweep()
    taken = 0
    while bench.postbox.sent:
        [message, *_] = _messages(bench)
        bench.postbox.failing = taken == cut
        try:
            await _take(bench, message)
        except TransientError:
            pass  # killed: the message was not completed
        else:
            del bench.postbox.sent[0]
        bench.postbox.failing = False
        taken += 1
    assert taken == 4
    assert _extended(bench) == {1: _MANY}


async def test_shard_that_goes_on_elsewhere_is_not_handed_over_again_unless_it_is_lost() -> None:
    """The timer looks at its first pages all the same."""
    bench = _bench()
    assert (await bench.sweep()).overdue == 200
    for number in range(_MANY, 2 * _MANY):
        bench.store.put(pending(LINE, TaskId(f"more-{number:04}")))
    bench.clock.advance(60)
    await bench.sweep()
    assert len(_messages(bench)) == 2
    bench.clock.advance(360)
    await bench.sweep()
    assert len(_messages(bench)) == 4, "both are lost"


async def test_what_can_not_be_handed_over_is_left_to_the_next_sweep() -> None:
    """The queue is away: the timer goes on by itself from where it came to."""
    bench = _bench()
    bench.postbox.failing = True
    for _ in range(4):
        await bench.sweep()
    assert _extended(bench) == {1: _MANY}


@pytest.mark.parametrize(("waited", "is_told"), [(10, True), (130, False)])
async def test_few_in_each_shard_are_a_crowd_in_sum(waited: float, *, is_told: bool) -> None:
    """Those behind the timer's pages are counted by their own sweeps, and soon added by its next."""
    bench = Bench()
    await bench.sweep()
    message = SweepMessage(kind=SweepKind.DUE, shard=0, round=bench.clock.now(), place=None)
    for number in range(POLICY.crowd.tasks + 4):
        bench.store.put(pending(LINE, TaskId(f"task-{number:04}")))
    bench.clock.advance(40)
    for shard in (0, 1):
        report = await _take(bench, message.model_copy(update={"shard": shard}))
        assert report is not None
        assert 0 < report.recovered < POLICY.crowd.tasks, "no more are judged by themselves"
    handed = {"handed": f'{{"0": "{message.round.isoformat()}", "1": "{message.round.isoformat()}"}}'}
    bench.heartbeat.pretend(handed)
    for record in bench.store.records():
        bench.store.remove(record.order.task)  # their Schedulers have finished them
    bench.clock.advance(waited)
    await bench.sweep()
    tasks = [POLICY.crowd.tasks + 4] if is_told else []
    assert [alert.tasks for alert in bench.crowds.alerts] == tasks


_NAIVE = '{"0": "2026-11-21T10:00:00"}'


@pytest.mark.parametrize("handed", ["{", "[]", "7", '{"a": null}', '{"9": "soon"}', _NAIVE, None, 7])
async def test_damaged_heartbeat_has_handed_nothing_over(handed: object) -> None:
    """A shard that is swept twice does no harm; one that is taken to be swept elsewhere, and is not, does."""
    bench = Bench()
    bench.heartbeat.pretend({"handed": handed, "started_at": START})
    assert (await bench.sweep()).failures == 0


@pytest.mark.parametrize("row", [{}, {"round": "soon", "at": START}, {"round": START, "at": None}])
async def test_damaged_row_of_a_shard_does_not_keep_it_from_being_divided(row: dict[str, object]) -> None:
    """Its message is worked on, which writes the row anew."""
    bench = _bench()
    for shard in (0, 1):
        await bench.heartbeat.beat(Chore.SHARD_SWEEP, row, shard)
    await bench.sweep()
    assert await _take_all(bench) == 2
    assert _extended(bench) == {1: _MANY}
    assert (await bench.sweep()).failures == 0


async def test_process_that_works_on_many_shards_leaves_others_on_the_queue(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another process may take them; they come again as they were."""
    monkeypatch.setattr(shard_sweep, "_SHARDS_AT_ONCE", 0)
    bench = _bench()
    await bench.sweep()
    [message, _] = _messages(bench)
    assert await _take(bench, message) is None
    assert _messages(bench)[-1] == message
    assert bench.postbox.sent[-1][3] == bench.clock.now() + timedelta(seconds=10)
