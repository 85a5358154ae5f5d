"""What tests of a verification share: the ways to run the platform, and what each check of it saw."""

from __future__ import annotations

from local.platform import ANY_PORTS, Addresses
from local.verification.credentials import Credentials
from local.verification.run import CheckLine, CheckMark, verify
from local.verification.scene import Scene

DEPLOYED = {"one host": ANY_PORTS, "four roles": ANY_PORTS.split()}


async def verified(at: Addresses, patience: float, **given: str) -> dict[str, CheckLine]:
    """Verify a platform with these keys; give the lines by their checks."""
    credentials = Credentials.of(given, at.host, at.operators)
    async with Scene.at(at.host, at.operators, credentials, patience) as scene:
        lines = await verify(scene, lambda _: None)
    return {line.check: line for line in lines}


def failed(lines: dict[str, CheckLine]) -> dict[str, str]:
    """Give what was seen by the checks that failed."""
    return {name: line.seen for name, line in lines.items() if line.verdict is CheckMark.FAILED}
