"""A working deployment is verified; a broken one fails with the line that names the fault."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from local.callers.cases import Case, Submission
from local.callers.client import OrderClient, OrderState
from local.platform import (
    ANY_PORTS,
    ROOT,
    Addresses,
    Platform,
    PlatformOptions,
    PlatformPorts,
    StartRefusedError,
)
from local.verification import CHECKS, CheckLine, CheckMark, Credentials, Scene, exit_code, verify
from tests.e2e.caller import NEEDS_ORDERS, PATIENCE

DEPLOYED = {"one host": ANY_PORTS, "four roles": ANY_PORTS.split()}
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


async def verified(at: Addresses, patience: float, **given: str) -> dict[str, CheckLine]:
    """Verify a platform with these keys; give the lines by their checks."""
    credentials = Credentials.of(given, at.host, at.operators)
    async with Scene.at(at.host, at.operators, credentials, patience) as scene:
        lines = await verify(scene, lambda _: None)
    return {line.check: line for line in lines}


def failed(lines: dict[str, CheckLine]) -> dict[str, str]:
    """Return the findings of the failed checks."""
    return {name: line.seen for name, line in lines.items() if line.verdict is CheckMark.FAILED}


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
    """Only the checks with the key fail and name it; checks that need an order are not run."""
    lines = await verified(deployed, _PATIENCE, **_GIVEN | {key: "nobodys-key-at-all"})
    faults = failed(lines)
    assert faults.keys() == failing
    assert all("401, the key or token is refused" in seen and key in seen for seen in faults.values())
    assert exit_code([*lines.values()]) == 1


async def test_verification_is_careful_with_keys_and_success() -> None:
    """No key goes over a network as plain text; without one, such an address is fine.

    A check that can't be run is not a success.
    """
    far, near = "http://orders.example.com", "http://127.0.0.1:7071"
    for urls in ([far], [near, far]):
        with pytest.raises(StartRefusedError, match="is not https"):
            Credentials.of({"VERIFY_TOKEN": "token"}, *urls)
    assert not any(Credentials.of({}, far).all())
    here = Credentials.of({"VERIFY_KEY": "key"}, near)
    assert here.operator == {"x-functions-key": "key"}
    passed = CheckLine("health", CheckMark.PASSED, "", 0)
    assert exit_code([passed, CheckLine("a delivery undone", CheckMark.NOT_RUN, "", 0)]) == 3


#: Seconds after which what is switched off is believed to be.
_SHORT = 8.0
#: Four roles only at night: each case waits for several timeouts of the command.
_DEPLOYED = [
    pytest.param(ports, id=name, marks=[] if name == "one host" else pytest.mark.night)
    for name, ports in DEPLOYED.items()
]


async def _until_one_is_processing(url: str) -> None:
    """Have an order begun: the first one takes longer, as nothing is loaded and connected yet."""
    first = Submission.new("first", Case.ORDER)
    async with OrderClient.at(url) as orders, asyncio.timeout(PATIENCE):
        assert (await orders.put(Case.ORDER.resource, first.id, first.body())).is_good
        early = {OrderState.ACCEPTED, OrderState.PENDING}
        while (order := await orders.look_at(first.id, Case.ORDER.resource)) is None or order.state in early:
            await asyncio.sleep(0.1)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("ports", _DEPLOYED)
async def test_missing_queue_and_idle_supervisor_are_named(ports: PlatformPorts, tmp_path: Path) -> None:
    """Each has its line; an order that stays under way is named, and how far it came."""
    declared = json.loads((ROOT / "infra" / "queues.json").read_text(encoding="utf-8"))
    declared["queues"] = [each for each in declared["queues"] if each["name"] != "agent-payment-requests"]
    queues = tmp_path / "queues.json"
    queues.write_text(json.dumps(declared))
    options = PlatformOptions(
        ports=ports,
        data=tmp_path / "data",
        settings={
            "STATE_SHARDS": "4",
            "SUPERVISOR_SCHEDULE": "* * * * * *",
            "AzureWebJobs.supervisor.Disabled": "true",
        },
        queues=queues,
        in_memory_storage=True,
    )
    async with Platform(options) as platform:
        await _until_one_is_processing(platform.addresses.host)
        lines = await verified(platform.addresses, _SHORT)
    seen = failed(lines)
    assert seen["queues"] == "can't be looked into: agent-payment-requests"
    assert "is the Supervisor on?" in seen["the Supervisor"]
    assert re.search(
        r"verify-\w+ still Processing, with payment [\w ]+, after 8 s", seen["an order processed"]
    )
    assert "the same again" not in seen
    assert lines["the same again"].verdict is CheckMark.NOT_RUN
