"""A service that bears ten calls at a time gets ten, from three hosts, of which one is killed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from local.platform import PartName
from tests.e2e.fleet.bench import running, submit
from tests.e2e.fleet.counting import CountingServices
from tests.e2e.fleet.second_host import another_host
from tests.e2e.recovery.bench import until

pytestmark = [pytest.mark.night, pytest.mark.process, pytest.mark.timeout(300)]

_LIMIT = 10
_TASKS = 200
#: A call's seconds: as many as it takes three hosts on a busy machine to begin ten.
_CALL = 6
_SETTINGS = {
    "AGENT_DRONE_AT_ONCE": f"{_LIMIT}",
    "PICK_UP_SECONDS": "120",
    "SUPERVISOR_THRESHOLD": "100",
    "STEP_SECONDS": "delivery.drone=40,delivery.account=30,delivery.package=30,delivery.transport=30",
}


async def test_three_hosts_share_the_limit_of_a_service(tmp_path: Path) -> None:
    """Never more than ten; and ten again when the killed host's share has lapsed."""
    time = asyncio.get_running_loop().time
    services = CountingServices("drone", _CALL)
    async with (
        running(tmp_path / "first", _SETTINGS, services=services) as bench,
        another_host(tmp_path / "second", bench.settings),
        another_host(tmp_path / "third", bench.settings) as third,
    ):
        await asyncio.gather(*(submit(bench, f"delivery-{number}") for number in range(_TASKS)))
        await until(lambda: services.spans.most == _LIMIT)
        await third.kill(PartName.HOST)
        killed = time()
        await until(lambda: services.spans.most_since(killed + _CALL) == _LIMIT)
        assert services.spans.most == _LIMIT
