"""The application as four hosts: each knows what its role needs, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from functions.roles import AppRole
from local.platform import Addresses, PartName, PlatformOptions, PlatformPorts, blueprint
from local.platform.blueprint import whole_platform
from local.platform.parts import Part
from tests.e2e.caller import NEEDS_ORDERS

#: Its Agent is the one behind a queue that this application serves.
pytestmark = NEEDS_ORDERS

_PORTS = replace(PlatformPorts(host=1).split(), scheduler=2, agents=3, supervisor=4)
_HOSTS = {
    AppRole.FRONT: PartName.HOST,
    AppRole.SCHEDULER: PartName.SCHEDULER,
    AppRole.AGENTS: PartName.AGENTS,
    AppRole.SUPERVISOR: PartName.SUPERVISOR,
}


@pytest.fixture(autouse=True)
def _azurite_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path)


def _hosts(folder: Path, **settings: str) -> dict[AppRole, Part]:
    options = PlatformOptions(ports=_PORTS, data=folder, settings=settings)
    _, hosts = whole_platform(options, Addresses(_PORTS))
    return {AppRole(part.environment["ROLES"]): part for part in hosts}


def test_each_role_has_a_host_with_a_port_and_a_folder_of_its_own(tmp_path: Path) -> None:
    """Also where the host keeps its keys, and the Scheduler's its instances."""
    for role, part in _hosts(tmp_path).items():
        assert (part.name, part.environment["ROLES"]) == (_HOSTS[role], role.value)
        assert str(tmp_path / part.name) in part.command
    ports = [part.command[part.command.index("--port") + 1] for part in _hosts(tmp_path).values()]
    assert ports == ["1", "2", "3", "4"]
    assert Addresses(_PORTS).operators == "http://127.0.0.1:4"
    assert Addresses(PlatformPorts(host=1)).operators == Addresses(PlatformPorts(host=1)).host


def test_agents_do_not_know_where_the_state_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor from the environment or a file; their store is the same account, or is named."""
    monkeypatch.setenv("StateStore", "the environment's")
    for role, part in _hosts(tmp_path, StateStore="one").items():
        assert bool(part.environment["StateStore"]) is (role is not AppRole.AGENTS)
        assert part.environment["AgentStore"] == "one"
    assert _hosts(tmp_path, AgentStore="own")[AppRole.AGENTS].environment["AgentStore"] == "own"


def test_agents_that_are_all_elsewhere_have_no_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would have no function, and a host without one does not start."""
    others = set(AppRole) - {AppRole.AGENTS}
    assert _hosts(tmp_path, AGENTS_ELSEWHERE=" payment").keys() == others
    monkeypatch.setenv("AGENTS_ELSEWHERE", "payment")
    assert _hosts(tmp_path).keys() == others
    assert _hosts(tmp_path, AGENTS_ELSEWHERE="").keys() == set(AppRole)
