"""What the kit says of work that is sent once, and ends late."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.local.agent_check.planted import check_changed

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(900)]

_CHECK = "sent once work that ends late"
#: Seconds, longer than the kit holds it up: where its lock runs out meanwhile, the request ends with its
#: complete-by, and that looks as if the Agent gave up.
_LOCK = 15
#: It waits for its ledger longer than the kit ever holds that up: its work is under way all the time.
_WAITS = ("timeout=10", "timeout=300")
#: It tries again every other moment: complete-by finds it between two tries.
_GIVES_UP = ("timeout=10", "timeout=0")
_STAYS_SILENT = (
    "            if is_late(request) or datetime.now(UTC) >= give_up_at:\n                return None\n"
)
#: It settles when the kit holds nothing up any more.
_DAWDLES = (_STAYS_SILENT, _STAYS_SILENT.replace("return", "return time.sleep(10) or"))
_SILENT = (
    "    if is_late(request) and not once:\n        return None\n",
    "    if is_late(request):\n        return None\n",
)


def test_work_that_ends_late_is_told(tmp_path: Path) -> None:
    """The check is passed."""
    report = check_changed([_WAITS], [_CHECK], tmp_path, processes=1, lock=_LOCK)
    assert _CHECK in report.checks("passed"), report.text
    assert report.code == 0, report.text


def test_silence_about_late_work_is_found(tmp_path: Path) -> None:
    """It was done, and nobody hears of it."""
    report = check_changed([_WAITS, _SILENT], [_CHECK], tmp_path, processes=1, lock=_LOCK)
    assert "no reply" in report.reasons().get(_CHECK, "not found"), report.text
    assert report.code == 1


@pytest.mark.parametrize("changes", [[_GIVES_UP], [_GIVES_UP, _DAWDLES]], ids=["at once", "later"])
def test_whoever_gives_up_is_rightly_silent(changes: list[tuple[str, str]], tmp_path: Path) -> None:
    """Nothing was done: the check is not seen."""
    report = check_changed(changes, [_CHECK], tmp_path, processes=1)
    assert report.checks("not seen") == {_CHECK}, report.text
    assert report.code == 0, report.text
