"""The options of the command reach the run, and the folder of a run that fails is kept."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import nullcontext
from pathlib import Path

import pytest

from local.command_line import main
from local.platform import INTERRUPTED, PlatformError
from tests.chaos.run import command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float, int]]:
    """Return a list of the arguments with which runs were started; none really is."""
    calls: list[tuple[int, int, float, int]] = []

    async def chaos(seed: int, orders: int, minutes: float, hosts: int) -> int:
        calls.append((seed, orders, minutes, hosts))
        return 1

    monkeypatch.setattr(command, "chaos", chaos)
    return calls


def test_run_takes_its_defaults(started: list[tuple[int, int, float, int]]) -> None:
    """200 orders, seed 1, two hosts; the exit code is the run's."""
    assert main(["chaos"]) == 1
    assert started == [(1, 200, 1.2, 2)]


def test_everything_can_be_chosen(started: list[tuple[int, int, float, int]]) -> None:
    """Seed, orders, minutes, hosts."""
    main(["chaos", "--seed", "5", "--orders", "30", "--minutes", "0.5", "--hosts", "3"])
    assert started == [(5, 30, 0.5, 3)]


@pytest.mark.parametrize(
    ("raised", "is_kept"), [(PlatformError("host ended"), True), (asyncio.CancelledError(), False)]
)
async def test_folder_of_a_run_that_fails_is_kept(
    raised: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_kept: bool
) -> None:
    """Whoever has to find out why needs it; of one that was interrupted, nobody does."""

    async def judged(*_: object) -> None:
        raise raised

    monkeypatch.setattr(command, "judged", judged)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with nullcontext() if not is_kept else pytest.raises(PlatformError):
        assert await command.chaos(1, 2, 0.1, 2) == INTERRUPTED
    assert bool(_left_in(tmp_path)) is is_kept


def _left_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())
