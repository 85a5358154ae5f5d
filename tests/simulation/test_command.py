"""The command line of the simulation: it never says that all is well when nothing was run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.simulation.run import command
from tests.simulation.run.command import main
from tests.simulation.run.figures import Figures, KeptFigures
from tests.simulation.run.many import Ran, ctrl_c_deferred, pair_ran, ran
from tests.simulation.run.story import Telling, told
from tests.simulation.run.verdict import Verdict, run_seed
from tests.simulation.seeds import ROOT


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "nothing to run"),
        (["--count", "0"], "nothing to run"),
        (["--count", "-5"], "'-5' is not a number of 0 or more"),
        (["--processes", "0", "--count", "1"], "'0' is not a number above 0"),
        (["--path", "nonsense"], "orders, happy; orders, recovered"),
        (["--without", "nonsense"], "crashes, crash of all hosts"),
        (["--pairs", "--path", "orders, happy"], "leave out --path"),
        (["--pairs", "--calm", "--count", "1"], "leave out --calm"),
        (["--seed", "0", "--count", "2"], "leave out --count"),
        (["--keep", "here", "--without", "crashes", "--count", "1"], "leave out --without"),
    ],
)
def test_what_can_not_be_run_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """With what there is instead."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_what_is_kept_is_said_not_to_be_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run goes on where another was stopped."""
    for count in ("1", "2"):
        assert main(["--pairs", "--count", count, "--keep", str(tmp_path)]) == 0
    assert capsys.readouterr().out.endswith("pairs 2 (1 of them run before), violated 0\n")


def test_path_that_is_stopped_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is told as if all had been run."""

    def stopped(run: Callable[[int], Ran], numbers: Sequence[int], _processes: int) -> Iterator[Ran]:
        yield from map(run, numbers[:1])
        if numbers:
            raise KeyboardInterrupt

    monkeypatch.setattr(command, "ran", stopped)
    assert main(["--path", "orders, happy"]) == 130
    assert "orders, happy: 1 of " in capsys.readouterr().out


def test_ctrl_c_waits_until_figures_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line that was begun is written whole; no other number is run."""
    keep = KeptFigures.keep

    def interrupted(kept: KeptFigures, figures: Figures) -> None:
        signal.raise_signal(signal.SIGINT)
        keep(kept, figures)

    monkeypatch.setattr(KeptFigures, "keep", interrupted)
    assert main(["--pairs", "--count", "2", "--keep", str(tmp_path)]) == 130
    assert [each.seed for each in KeptFigures(tmp_path).read()] == [0]


@pytest.mark.process
def test_processes_never_receive_ctrl_c() -> None:
    """Not even while they import modules: they inherit what is blocked."""
    with ctrl_c_deferred():
        [only] = ran(_pair_without_ctrl_c, [0], processes=2)
    assert not only.told


def _pair_without_ctrl_c(number: int) -> Ran:
    assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return pair_ran(number)


@pytest.fixture(scope="module")
def verdict() -> Verdict:
    """Run a seed."""
    return run_seed(14)


def test_story_says_how_much_of_it_is_left_out(verdict: Verdict) -> None:
    """And all of it can be told."""
    lines, every = [*Telling().story(verdict)], [*Telling(uncut=True).story(verdict)]
    assert len(lines) == 401
    assert lines[-1].startswith(f"… and {len(every) - 400:,} more lines: --all")


def test_story_of_one_task_is_told_to_its_end(verdict: Verdict) -> None:
    """With what befell the hosts, and nothing about others."""
    lines = [*Telling(task="plain", uncut=True).story(verdict)]
    assert all("plain" in line or "**" in line for line in lines)
    assert any("plain.1.completed" in line for line in lines)


def test_story_of_a_task_that_is_not_there_says_so(verdict: Verdict) -> None:
    """With those that are, and their ends."""
    told_of_none = told(verdict, [], Telling(always=True, task="t99"), calm=False)
    assert "  tasks: plain Processed, t0 " in told_of_none
    assert told_of_none.endswith("nothing names t99: --task takes one of the tasks above")


@pytest.mark.process
def test_ctrl_c_ends_with_what_was_run_until_then(tmp_path: Path) -> None:
    """Without a trace of what was interrupted; the kept figures are there for the next time."""
    options = f"--count 999 --processes 2 --keep {tmp_path}".split()
    with subprocess.Popen(
        [sys.executable, "-m", "tests.simulation", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as run:
        while not (tmp_path / "verdicts.jsonl").exists():
            assert run.poll() is None
            time.sleep(0.1)
        os.killpg(run.pid, signal.SIGINT)
        told, errors = run.communicate(timeout=60)
    assert (run.returncode, errors) == (130, "")
    assert told.endswith(f"stopped; what was run is kept in {tmp_path}\n")
