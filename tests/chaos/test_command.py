"""The options of the command reach the run, and wrong ones are refused with the reason."""

from __future__ import annotations

import pytest

from local.command_line import main
from tests.chaos.run import command


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int, float, int, bool]]:
    """Return a list of the arguments with which runs were started; none really is."""
    calls: list[tuple[int, int, float, int, bool]] = []

    async def chaos(seed: int, orders: int, minutes: float, accounts: int, *, split: bool) -> int:
        calls.append((seed, orders, minutes, accounts, split))
        return 1

    monkeypatch.setattr(command, "chaos", chaos)
    return calls


def test_run_takes_its_defaults(started: list[tuple[int, int, float, int, bool]]) -> None:
    """200 orders, seed 1; the exit code is the run's."""
    assert main(["chaos"]) == 1
    assert started == [(1, 200, 1.2, 1, False)]


def test_everything_can_be_chosen(started: list[tuple[int, int, float, int, bool]]) -> None:
    """Seed, orders, minutes, accounts, a host for each role."""
    chosen = ["--seed", "5", "--orders", "30", "--minutes", "0.5", "--accounts", "2", "--roles", "split"]
    main(["chaos", *chosen])
    assert started == [(5, 30, 0.5, 2, True)]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--orders", "0"], "'0' is not a number above 0"),
        (["--minutes", "nan"], "'nan' is not a number of minutes"),
        (["--minutes", "soon"], "'soon' is not a number of minutes"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started."""
    with pytest.raises(SystemExit) as end:
        main(["chaos", *arguments])
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err
