"""A seed decides the orders and the order of the faults; the options of the command reach the run."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

import pytest

from functions.workflows import registry
from local.command_line import main
from local.platform import INTERRUPTED, PlatformError
from tests.chaos import command
from tests.chaos.plan import LANES, InjectedFault, Scenario, make_plan


def test_seed_decides_the_plan() -> None:
    """A run can be repeated, except for the races between processes; other seeds draw other plans.

    Each fault has its turn once in each round, first in one host and then in all.
    """
    first, second, other = make_plan(7, 200, 60), make_plan(7, 200, 60), make_plan(8, 200, 60)
    assert first == second
    assert Counter(fault for lane in LANES.values() for fault in lane) == Counter(InjectedFault)
    for lane, faults in LANES.items():
        drawn = list(islice(first.injections(lane), 50))
        assert drawn == list(islice(second.injections(lane), 50))
        assert drawn != list(islice(other.injections(lane), 50))
        for everywhere in (False, True, False):
            in_turn, drawn = drawn[: len(faults)], drawn[len(faults) :]
            assert Counter(each.fault for each in in_turn) == Counter(faults)
            assert {each.everywhere for each in in_turn} == {everywhere}


@pytest.mark.parametrize("orders", [10, 200])
def test_every_scenario_of_every_resource_has_its_orders(orders: int) -> None:
    """One order in five is held back; the others are submitted within the plan's time."""
    plan = make_plan(1, orders, 60)
    usual = [each for each in plan.orders if each.at is not None]
    assert len(plan.orders) == orders
    assert len(usual) == orders - orders // 5
    assert all(each.at is not None and 0 <= each.at < plan.seconds for each in usual)
    pairs = {(each.resource, each.scenario) for each in usual}
    assert pairs == {(resource, each) for resource in ("orders", "deliveries") for each in Scenario}
    assert {each.id for each in plan.orders if each.cancelled is not None} == {
        each.id for each in plan.orders if each.scenario is Scenario.CANCELLED
    }
    assert set(plan.refused.values()) == {"payment", "drone"}


def test_run_takes_its_defaults_and_its_options(monkeypatch: pytest.MonkeyPatch) -> None:
    """200 orders, seed 1, two hosts; the exit code is the run's."""
    started: list[tuple[object, ...]] = []

    async def chaos(*given: object) -> int:
        started.append(given)
        return 1

    monkeypatch.setattr(command, "chaos", chaos)
    monkeypatch.setattr(registry, "FOLDERS", ["orders", "deliveries"])
    assert main(["chaos"]) == 1
    main(["chaos", "--seed", "5", "--orders", "30", "--minutes", "0.5", "--hosts", "3"])
    assert started == [(1, 200, 1.2, 2), (5, 30, 0.5, 3)]


@pytest.mark.parametrize(
    ("raised", "is_kept"), [(PlatformError("host ended"), True), (asyncio.CancelledError(), False)]
)
async def test_folder_of_a_run_that_fails_is_kept(
    raised: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    """A failed run keeps its data for the analysis; an interrupted run deletes it."""

    async def judged(*_: object) -> None:
        raise raised

    monkeypatch.setattr(command, "judged", judged)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with nullcontext() if not is_kept else pytest.raises(PlatformError):
        assert await command.chaos(1, 2, 0.1, 2) == INTERRUPTED
    assert bool([*tmp_path.iterdir()]) is is_kept  # noqa: ASYNC240 - the run has ended
