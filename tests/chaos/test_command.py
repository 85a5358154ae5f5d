"""What is typed reaches the run, and nonsense is refused with the reason."""

from __future__ import annotations

import pytest

from local import command_line
from local.command_line import main


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float]]:
    """Give a list that gets what a run is called with, instead of starting one."""
    calls: list[tuple[int, int, float]] = []

    async def chaos(seed: int, orders: int, minutes: float) -> int:
        calls.append((seed, orders, minutes))
        return 1

    monkeypatch.setattr(command_line, "chaos", chaos)
    return calls


def test_run_takes_its_defaults(asked: list[tuple[int, int, float]]) -> None:
    """200 orders, seed 1; the exit code is the run's."""
    assert main(["chaos"]) == 1
    assert asked == [(1, 200, 1.2)]


def test_everything_can_be_chosen(asked: list[tuple[int, int, float]]) -> None:
    """Seed, orders, minutes."""
    main(["chaos", "--seed", "5", "--orders", "30", "--minutes", "0.5"])
    assert asked == [(5, 30, 0.5)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--orders", "0"], "'0' is not a number above 0"),
        (["--minutes", "nan"], "'nan' is not a number of minutes"),
        (["--minutes", "soon"], "'soon' is not a number of minutes"),
    ],
)
def test_nonsense_is_refused_with_the_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started on a guess."""
    with pytest.raises(SystemExit) as end:
        main(["chaos", *arguments])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
