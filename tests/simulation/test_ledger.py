"""The ledger is added up from the figures that runs have kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.run import figures
from tests.simulation.run.figures import Figures, KeptFigures, What
from tests.simulation.run.ledger import ledger


def _figures(seed: int, *violations: str) -> Figures:
    return Figures(
        seed=seed,
        violations=violations,
        digest="",
        outcomes={"Processed": 2, "Error": 1},
        faults={"crashes": 3},
        kinds=frozenset({"crashes"}),
        seconds=5_400,
        cpu=0,
        widest=1,
        deepest=1,
    )


def test_seeds_of_one_commit_are_one_line() -> None:
    """With those that were violated by name."""
    told = ledger([_figures(1), _figures(2, "I1")])
    assert "| unknown | 2 seeds | 3 | 6 | 4 / 0 / 2 | 2 |" in told
    assert told.endswith("crashes 6")


def test_kept_figures_know_their_commit(tmp_path: Path) -> None:
    """It is the one that was there when the seed ran."""
    KeptFigures(tmp_path).keep(_figures(1))
    [kept] = KeptFigures(tmp_path).read()
    assert len(kept.commit) >= 7
    assert kept == _figures(1).model_copy(update={"commit": kept.commit})


def test_line_that_was_cut_off_costs_its_own_seed_only(tmp_path: Path) -> None:
    """The process was killed while it wrote; who goes on runs that seed again, and each counts once."""
    kept = KeptFigures(tmp_path)
    for seed in (1, 2):
        kept.keep(_figures(seed))
    [file] = tmp_path.iterdir()
    file.write_text(file.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    assert [*kept.known()] == [1]
    for seed in (2, 3, 3):
        kept.keep(_figures(seed))
    assert [each.seed for each in kept.read()] == [1, 2, 3]


def test_what_another_commit_violated_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this one violated is not, and what was right stays so."""
    before = KeptFigures(tmp_path)
    before.keep(_figures(1, "I1"))
    before.keep(_figures(2))
    monkeypatch.setattr(figures, "_commit", lambda: "later")
    now = KeptFigures(tmp_path)
    now.keep(_figures(3, "I2"))
    assert [*now.known()] == [2, 3]


def test_what_changed_code_violated_is_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether the changes are the same."""
    monkeypatch.setattr(figures, "_commit", lambda: "12345678+changed")
    kept = KeptFigures(tmp_path)
    kept.keep(_figures(1, "I1"))
    kept.keep(_figures(2))
    assert [*kept.known()] == [2]


def test_what_is_kept_of_seeds_stands_for_no_other_runs(tmp_path: Path) -> None:
    """Pairs and calm seeds have the same numbers."""
    KeptFigures(tmp_path, What.PAIRS).keep(_figures(1))
    KeptFigures(tmp_path, What.CALM).keep(_figures(2))
    seeds = KeptFigures(tmp_path)
    seeds.keep(_figures(3))
    assert [*seeds.known()] == [3]
    told = ledger(seeds.read())
    assert all(f" | 1 {what} | " in told for what in ("pairs", "calm seeds", "seeds"))
