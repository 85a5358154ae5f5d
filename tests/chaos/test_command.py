"""The options of the command reach the run, and wrong ones are refused with the reason."""

from __future__ import annotations

import pytest

from local.command_line import main
from tests.chaos.run import command

type Chosen = tuple[int, int, float, int, str, bool]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Chosen]:
    """Return a list of the arguments with which runs were started; none really is."""
    calls: list[Chosen] = []

    async def chaos(
        seed: int, orders: int, minutes: float, accounts: int, submit_to: str, *, split: bool
    ) -> int:
        calls.append((seed, orders, minutes, accounts, submit_to, split))
        return 1

    monkeypatch.setattr(command, "chaos", chaos)
    return calls


def test_run_takes_its_defaults(started: list[Chosen]) -> None:
    """200 orders, seed 1; the exit code is the run's."""
    assert main(["chaos"]) == 1
    assert started == [(1, 200, 1.2, 1, "queue", False)]


def test_everything_can_be_chosen(started: list[Chosen]) -> None:
    """Seed, orders, minutes, accounts, the way in, a host for each role."""
    how_many = ["--seed", "5", "--orders", "30", "--minutes", "0.5"]
    where = ["--accounts", "2", "--submit-to", "hub", "--roles", "split"]
    main(["chaos", *how_many, *where])
    assert started == [(5, 30, 0.5, 2, "hub", True)]


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
