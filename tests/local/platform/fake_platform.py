"""A platform of fake parts.

As a program (`python -m tests.local.platform.fake_platform DATA [BEHAVIOUR …]`) it behaves like
`python -m local up`, for tests that stop or kill it.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from local.platform import ANY_PORTS, Addresses, PartName, Platform, PlatformOptions, until_stop_signal
from local.platform.blueprint import Blueprint, Stages
from local.platform.parts import Part, Readiness
from tests.local.platform.processes import PATIENCE

_FAKE_PART = Path(__file__).with_name("fake_part.py")


def fakes(*behaviour: str, stop_within: float = PATIENCE) -> Blueprint:
    """Return a blueprint of a broker that behaves well, then a host with this behaviour."""

    def blueprint(_: PlatformOptions, addresses: Addresses) -> Stages:
        return [
            [fake(PartName.BROKER, addresses.ports.admin, stop_within=stop_within)],
            [fake(PartName.HOST, addresses.ports.host, *behaviour, stop_within=stop_within)],
        ]

    return blueprint


def options(data: Path) -> PlatformOptions:
    """Return the options of a platform that runs side by side with others."""
    return PlatformOptions(ports=ANY_PORTS, data=data)


def fake(name: PartName, port: int, *behaviour: str, stop_within: float) -> Part:
    """Return a fake part that listens on this port."""
    return Part(
        name=name,
        command=(sys.executable, str(_FAKE_PART), str(port), *behaviour),
        ready=Readiness(f"http://127.0.0.1:{port}"),
        stop_within=stop_within,
    )


async def _main(data: Path, *behaviour: str) -> int:
    platform = Platform(options(data), fakes(*behaviour))

    async def work() -> int:
        async with platform:
            sys.stdout.write("ready\n")
            sys.stdout.flush()
            await platform.run_until_failure()

    return await until_stop_signal(work())


if __name__ == "__main__":
    sys.exit(asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:])))
