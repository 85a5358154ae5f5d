"""The ledger is added up from the figures that runs have kept."""

from __future__ import annotations

from pathlib import Path

from tests.simulation.run.figures import Figures, KeptFigures
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
    assert "| unknown | 2 | 3 | 6 | 4 / 0 / 2 | 2 |" in told
    assert told.endswith("crashes 6")


def test_kept_figures_know_their_commit(tmp_path: Path) -> None:
    """It is the one that was there when the seed ran."""
    KeptFigures(tmp_path).keep(_figures(1))
    [kept] = KeptFigures(tmp_path).read()
    assert len(kept.commit) >= 7
    assert kept == _figures(1).model_copy(update={"commit": kept.commit})
