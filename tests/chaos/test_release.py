"""A release run goes on where it stopped, until there was enough, and its verdicts are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from local.platform import PlatformError
from tests.chaos.evidence.evidence import Evidence
from tests.chaos.invariants import Invariant, Violation
from tests.chaos.plan.faults import InjectedFault
from tests.chaos.run.environment import Layout
from tests.chaos.run.release import ReleaseGoal, SeedRun, go_on, layout_of
from tests.chaos.run.verdicts import RunVerdict, RunVerdicts, ledger, verdict_of
from tests.chaos.sample_evidence import ORDER, compensated, processed

_DAY = date(2026, 1, 1)
_GOAL = ReleaseGoal(tasks=3, kills=6, piece=60.0)


async def test_stopped_run_goes_on_with_the_seed_that_has_no_verdict(tmp_path: Path) -> None:
    """The one that was stopped is run again; nothing is run when the goal is reached."""
    seeds: list[int] = []
    assert await go_on(tmp_path, _GOAL, _runs(seeds, stopped=2)) is None
    assert await go_on(tmp_path, _GOAL, _runs(seeds)) is True
    assert await go_on(tmp_path, _GOAL, _runs(seeds)) is True
    assert seeds == [1, 2, 2, 3]


async def test_two_at_once_take_seeds_of_their_own(tmp_path: Path) -> None:
    """One that was killed has left its claim, which holds nobody up."""
    seeds: list[int] = []
    with RunVerdicts(tmp_path).next_seed() as claimed:
        assert await go_on(tmp_path, _GOAL, _runs(seeds)) is True
    assert await go_on(tmp_path, replace(_GOAL, tasks=4), _runs(seeds)) is True
    assert (claimed, seeds) == (1, [2, 3, 4, 1])


async def test_piece_ends_with_its_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What was run is told, and how to go on."""
    await go_on(tmp_path, replace(_GOAL, piece=0.0), _runs([]))
    assert "0 runs are kept" in capsys.readouterr().out
    RunVerdicts(tmp_path).keep(_verdict(1))
    await go_on(tmp_path, replace(_GOAL, piece=0.0), _runs([]))
    assert "the same command goes on" in capsys.readouterr().out


async def test_violation_is_kept_for_ever(tmp_path: Path) -> None:
    """Later runs without one don't mend that."""
    found = [Violation(Invariant.NO_LOSS, ORDER, "is lost")]
    assert await go_on(tmp_path, replace(_GOAL, tasks=1, kills=1), _runs([], found=found)) is False
    assert await go_on(tmp_path, _GOAL, _runs([])) is False
    assert RunVerdicts(tmp_path).all()[0].violations == ("I1 order-1: is lost",)


async def test_run_that_fails_is_kept_as_violated(tmp_path: Path) -> None:
    """Its seed is not run again when the same command goes on."""
    seeds: list[int] = []
    inner = _runs(seeds)

    async def run(seed: int, layout: Layout) -> RunVerdict | None:
        verdict = await inner(seed, layout)
        if seed == 1:
            raise PlatformError("host ended with exit code 139")
        return verdict

    with pytest.raises(PlatformError):
        await go_on(tmp_path, _GOAL, run)
    assert await go_on(tmp_path, _GOAL, run) is False
    assert seeds == [1, 2, 3, 4]
    [failed, *others] = RunVerdicts(tmp_path).all()
    assert "host ended with exit code 139" in failed.violations[0]
    assert not any(each.violations for each in others)


def test_file_that_was_cut_off_is_no_verdict(tmp_path: Path) -> None:
    """The process was killed while it wrote."""
    RunVerdicts(tmp_path).keep(_verdict(1))
    (tmp_path / "seed-0002.new").write_text('{"seed": 2', encoding="utf-8")
    assert [each.seed for each in RunVerdicts(tmp_path).all()] == [1]


@pytest.mark.parametrize(
    "expected",
    [
        "| abc | 2026-01-01 | 2 | 2 | 4 | 78 | 1 | 0 | 0 |",
        "tasks: Compensated 1, Processed 1",
        "host killed 2",
        "not run: one clock ahead",
    ],
)
def test_ledger_sums_up(expected: str) -> None:
    """Runs, tasks, kills, faults, recoveries; by commit, by state, by kind."""
    evidence = compensated()
    no_clock = replace(evidence.plan, seed=2, not_run=frozenset({InjectedFault.CLOCK_AHEAD}))
    verdicts = [_verdict(1), _verdict(2, evidence=lambda: replace(evidence, plan=no_clock))]
    assert expected in ledger(verdicts)


def test_layouts_take_turns() -> None:
    """Two hosts always, and both ways in."""
    layouts = [layout_of(seed) for seed in range(1, 5)]
    assert {each.hosts for each in layouts} == {2}
    assert {each.submit_to for each in layouts} == {"queue", "hub"}


def _runs(seeds: list[int], *, stopped: int | None = None, found: list[Violation] | None = None) -> SeedRun:
    async def run(seed: int, _layout: Layout) -> RunVerdict | None:
        seeds.append(seed)
        return None if seed == stopped else _verdict(seed, found=found)

    return run


def _verdict(
    seed: int,
    *,
    evidence: Callable[[], Evidence] = processed,
    found: list[Violation] | None = None,
) -> RunVerdict:
    seen = evidence()
    return verdict_of(
        replace(seen, plan=replace(seen.plan, seed=seed)), found or [], day=_DAY, commit="abc", hosts=2
    )
