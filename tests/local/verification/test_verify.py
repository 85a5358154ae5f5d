"""A deployment that works is verified, and one that does not fails with the line that says what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from local.platform import Addresses, Platform, PlatformOptions, StartRefusedError
from local.verification.command import exit_code
from local.verification.credentials import Credentials
from local.verification.run import CHECKS, CheckLine, CheckMark
from tests.e2e.caller import NEEDS_ORDERS
from tests.local.verification.running import DEPLOYED, failed, verified

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module"), NEEDS_ORDERS]

_KEYS = {
    "api": {"ada": "adas-key-of-the-api"},
    "operations": {"ada": "adas-key-of-operations"},
    "services": {"agents": "agents-key-of-services"},
}
_GIVEN = {
    "VERIFY_KEY": _KEYS["api"]["ada"],
    "VERIFY_OPERATOR_KEY": _KEYS["operations"]["ada"],
    "VERIFY_SERVICES_KEY": _KEYS["services"]["agents"],
}
_AGENTS = ("PAYMENT", "ACCOUNT", "PACKAGE", "TRANSPORT", "DRONE", "DELIVERY")
#: Seconds: more than a busy machine needs for one order.
_PATIENCE = 60.0


@pytest_asyncio.fixture(
    scope="module", loop_scope="module", params=list(DEPLOYED.values()), ids=list(DEPLOYED)
)
async def deployed(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Addresses]:
    """Run the platform, with keys."""
    options = PlatformOptions(
        ports=request.param,
        data=tmp_path_factory.mktemp("verified"),
        settings={
            "STATE_SHARDS": "4",
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            **{f"{agent}_KEY": _KEYS["services"]["agents"] for agent in _AGENTS},
        },
        in_memory_storage=True,
        function_keys=_KEYS,
    )
    async with Platform(options) as platform:
        yield platform.addresses


async def test_working_deployment_passes_every_check(deployed: Addresses) -> None:
    """And nothing that was made is left."""
    lines = await verified(deployed, _PATIENCE, **_GIVEN)
    assert {name: line.seen for name, line in lines.items() if line.verdict is not CheckMark.PASSED} == {}
    assert lines.keys() == CHECKS.keys()
    assert lines["cleaned up"].seen == "4 made, all of them undone"
    assert "by function-key" in lines["operators' pages"].seen
    assert exit_code([*lines.values()]) == 0


@pytest.mark.parametrize(
    ("key", "failing"),
    [
        ("VERIFY_KEY", {"an order processed", "a delivery undone", "a batch"}),
        ("VERIFY_OPERATOR_KEY", {"queues", "operators' pages", "the Supervisor"}),
    ],
)
async def test_wrong_key_is_named(deployed: Addresses, key: str, failing: set[str]) -> None:
    """Where it is shown, and nothing else fails; what needs an order is not run."""
    lines = await verified(deployed, _PATIENCE, **_GIVEN | {key: "nobodys-key-at-all"})
    faults = failed(lines)
    assert faults.keys() == failing
    assert all("401, the key or token is refused" in seen and key in seen for seen in faults.values())
    assert exit_code([*lines.values()]) == 1


async def test_deployment_without_sample_services_is_not_said_to_be_proved() -> None:
    """What can't be run is no success."""
    lines = [
        CheckLine("health", CheckMark.PASSED, "", 0),
        CheckLine("a delivery undone", CheckMark.NOT_RUN, "", 0),
    ]
    assert exit_code(lines) == 3


async def test_no_key_goes_over_a_network_as_plain_text() -> None:
    """Without one, such an address is fine."""
    far, near = "http://orders.example.com", "http://127.0.0.1:7071"
    for urls in ([far], [near, far]):
        with pytest.raises(StartRefusedError, match="is not https"):
            Credentials.of({"VERIFY_TOKEN": "token"}, *urls)
    assert not any(Credentials.of({}, far).all())
    here = Credentials.of({"VERIFY_KEY": "key"}, near)
    assert here.operator == {"x-functions-key": "key"}
