"""A setting that is missing or wrong stops the start with one line that names it and the fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from local.platform import PartFailedError
from tests.e2e.caller import running

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"PAYMENT_URL": "nowhere"}, "setting PAYMENT_URL is wrong"),
        ({"RETENTION_DAYS": "0.5"}, "cancel_within: 86400 s is longer than the retention of tasks"),
    ],
)
async def test_wrong_setting_stops_the_start_with_one_line(
    tmp_path: Path, settings: dict[str, str], expected: str
) -> None:
    """The developer sees the setting's name and the fix, and no stack trace."""
    with pytest.raises(PartFailedError) as failure:
        async with running(tmp_path, settings):
            pass
    assert expected in str(failure.value)
    assert "Traceback" not in str(failure.value)
