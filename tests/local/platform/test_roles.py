"""The application as four hosts: each knows what its role needs, and no more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from functions.roles import AppRole
from local.platform import Addresses, PartName, PlatformOptions, PlatformPorts, blueprint
from local.platform.blueprint import whole_platform
from local.platform.parts import Part

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
    return dict(zip(AppRole, hosts, strict=True))


def test_each_role_has_a_host_with_a_port_and_a_folder_of_its_own(tmp_path: Path) -> None:
    """Also where the host keeps its keys, and the Scheduler's its instances."""
    for role, part in _hosts(tmp_path).items():
        assert (part.name, part.environment["ROLES"]) == (_HOSTS[role], role.value)
        assert str(tmp_path / part.name) in part.command
    ports = [part.command[part.command.index("--port") + 1] for part in _hosts(tmp_path).values()]
    assert ports == ["1", "2", "3", "4"]
    assert Addresses(_PORTS).operators == "http://127.0.0.1:4"
    assert Addresses(PlatformPorts(host=1)).operators == Addresses(PlatformPorts(host=1)).host


def test_agents_do_not_know_where_the_state_store_is(tmp_path: Path) -> None:
    """With one account or several; theirs is the first, unless another is named."""
    for settings in ({"StateStore": "first"}, {"StateStore__0": "first", "StateStore__1": "second"}):
        for role, part in _hosts(tmp_path, **settings).items():
            knows = any(name.startswith("StateStore") for name in part.environment)
            assert knows is (role is not AppRole.AGENTS)
            assert part.environment["AgentStore"] == "first"
    assert _hosts(tmp_path, AgentStore="own")[AppRole.AGENTS].environment["AgentStore"] == "own"
