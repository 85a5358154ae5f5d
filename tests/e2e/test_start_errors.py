"""A setting that is missing or wrong stops the start with one line that names it and the fix."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from local.platform import ANY_PORTS, PartFailedError, Platform, PlatformOptions
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


async def test_data_of_four_shards_is_refused_with_the_fix(tmp_path: Path) -> None:
    """The local platform has one shard, and a table keeps the number that it was made with."""
    now = PlatformOptions(ports=ANY_PORTS, data=tmp_path)
    async with Platform(replace(now, settings={"STATE_SHARDS": "4"})):
        pass
    fix = r"STATE_SHARDS: it is 1, .* created with 4: set it to 4 \(locally: python -m local reset\)"
    with pytest.raises(PartFailedError, match=fix):
        async with Platform(now):
            pass
