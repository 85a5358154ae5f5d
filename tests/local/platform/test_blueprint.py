"""The parts of the platform, with one host or a host for each role: their order and their options."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from functions.roles import AppRole
from functions_local.host import STOP_GRACE
from local.platform import (
    ROOT,
    Addresses,
    PartName,
    PlatformOptions,
    PlatformPorts,
    StartRefusedError,
    blueprint,
    readiness,
)
from local.platform.app import imported_modules
from local.platform.blueprint import platform_stages
from local.platform.parts import Part, Readiness
from tests.e2e.caller import NEEDS_ORDERS

ADDRESSES = Addresses(PlatformPorts(host=1, service_bus=2, admin=3, blob=4, queue=5, table=6))
_PORTS = replace(PlatformPorts(host=1).split(), scheduler=2, agents=3, supervisor=4)


@pytest.fixture(autouse=True)
def _azurite_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path)


def _part(name: PartName, options: PlatformOptions | None = None) -> Part:
    stages = platform_stages(options or PlatformOptions(), ADDRESSES)
    return next(part for stage in stages for part in stage if part.name is name)


def test_azurite_and_the_broker_start_before_the_host_and_stop_after_it() -> None:
    """It settles its messages and writes its last rows, within five seconds in sum.

    It starts beside them, loads the app when they answer, and when it stops, it finishes functions.
    """
    stages = platform_stages(PlatformOptions(), ADDRESSES)
    assert [[part.name for part in stage] for stage in stages] == [
        [PartName.AZURITE, PartName.BROKER],
        [PartName.HOST],
    ]
    # Each stage stops as slowly as its slowest part.
    assert sum(max(part.stop_within for part in stage) for stage in stages) < 5
    assert _part(PartName.HOST).after == {
        PartName.AZURITE: ("--after", ADDRESSES.table),
        PartName.BROKER: ("--after", "127.0.0.1:2"),
    }
    assert _part(PartName.HOST).stop_within >= STOP_GRACE + 0.5


def test_the_host_imports_the_apps_modules_early(tmp_path: Path) -> None:
    """In the app's order; a file that cannot be read is the host's to report."""
    app = (
        "from __future__ import annotations\nimport a.b, c as d\nfrom . import e\nfrom f import g\nimport c\n"
    )
    (tmp_path / "function_app.py").write_text(f"{app}def later():\n    import h\n")
    host = _part(PartName.HOST, PlatformOptions(app=tmp_path))
    preloaded = [each for each in host.command if each.startswith("--preload")]
    assert preloaded == ["--preload=a.b", "--preload=c", "--preload=f"]
    assert imported_modules(tmp_path / "missing") == []
    (tmp_path / "function_app.py").write_text("no Python")
    assert imported_modules(tmp_path) == []


def test_each_part_keeps_its_state_in_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the folders that `reset` deletes. Only an Azurite that saves its tables is not crash-safe."""
    folders = {PartName.AZURITE: "azurite", PartName.BROKER: "servicebus", PartName.HOST: "host"}
    for name, folder in folders.items():
        part = _part(name, PlatformOptions(data=tmp_path))
        assert str(tmp_path / folder) in part.command
        assert part.crash_safe is (name is not PartName.AZURITE)
        assert _part(name, PlatformOptions(in_memory_storage=True)).crash_safe
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path / "missing")
    with pytest.raises(StartRefusedError, match="make setup"):
        platform_stages(PlatformOptions(), ADDRESSES)


@pytest.mark.parametrize(("in_memory", "folder"), [(False, "."), (True, "in-memory")])
def test_several_hosts_share_the_hub_of_the_first(tmp_path: Path, *, in_memory: bool, folder: str) -> None:
    """Each has its own port and folder; all call the sample services of the first. One shares nothing."""
    state = tmp_path / folder
    ports = replace(ADDRESSES.ports, host_2=7, host_3=8)
    chosen = PlatformOptions(data=tmp_path, in_memory_storage=in_memory)
    _, hosts = platform_stages(chosen, Addresses(ports))
    assert [host.name for host in hosts] == ["host", "host-2", "host-3"]
    for host, port in zip(hosts, (1, 7, 8), strict=True):
        options = dict(pairwise(host.command))
        assert (options["--port"], options["--data"]) == (str(port), str(state / host.name))
        assert options["--shared"] == str(state / "host")
        assert host.ready.url == f"http://127.0.0.1:{port}/admin/host/status"
        assert host.environment == hosts[0].environment
    assert "--shared" not in _part(PartName.HOST).command


def test_the_queues_and_hubs_are_those_that_the_app_declares(tmp_path: Path) -> None:
    """Its files in `infra`; the queues' file that the options name is stronger."""
    options = PlatformOptions(app=tmp_path)
    assert "--hubs" not in _part(PartName.BROKER, options).command
    (tmp_path / "infra").mkdir()
    for name in ("queues.json", "hubs.json"):
        (tmp_path / "infra" / name).write_text("{}")
    broker = _part(PartName.BROKER, options)
    assert broker.prepare is None
    given = dict(pairwise(broker.command))
    assert given["--config"] == str(tmp_path / "infra" / "queues.json")
    assert given["--hubs"] == str(tmp_path / "infra" / "hubs.json")
    chosen = _part(PartName.BROKER, replace(options, queues=ROOT / "infra" / "queues.json"))
    assert str(ROOT / "infra" / "queues.json") in chosen.command


_BAD = b"HTTP/1.1 503 Busy\r\nConnection: close\r\n\r\nstill starting"
_GOOD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfine"


@asynccontextmanager
async def _answering(*answers: bytes) -> AsyncIterator[str]:
    """Serve the answers one after the other, the last one for ever, and yield the address."""
    left = list(answers)

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(left.pop(0) if len(left) > 1 else left[0])
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/health"


async def test_a_bad_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is a good one; `any_status` accepts any HTTP: Azurite answers 400 to a plain GET.

    The error has the last bad answer.
    """
    async with _answering(_BAD, b"no HTTP", _GOOD) as url:
        await readiness.until_answered(Readiness(url))
    async with _answering(b"no HTTP", _BAD) as url:
        await readiness.until_answered(Readiness(url, any_status=True))
    monkeypatch.setattr(readiness, "_READY_WITHIN", 3.0)
    for answer, said in ((_BAD, "503 still starting"), (b"?", "not HTTP")):
        async with _answering(answer) as url:
            with pytest.raises(TimeoutError, match=said):
                await readiness.until_answered(Readiness(url))


def _hosts(folder: Path, **settings: str) -> dict[AppRole, Part]:
    options = PlatformOptions(ports=_PORTS, data=folder, settings=settings)
    _, hosts = platform_stages(options, Addresses(_PORTS))
    return {AppRole(part.environment["ROLES"]): part for part in hosts}


@NEEDS_ORDERS
def test_each_role_has_a_host_with_a_port_and_a_folder_of_its_own(tmp_path: Path) -> None:
    """Also where the host keeps its keys, and the Scheduler's its instances."""
    names = [PartName.HOST, PartName.SCHEDULER, PartName.AGENTS, PartName.SUPERVISOR]
    hosts = _hosts(tmp_path)
    assert [part.name for part in hosts.values()] == names
    assert [*hosts] == [AppRole.FRONT, AppRole.SCHEDULER, AppRole.AGENTS, AppRole.SUPERVISOR]
    for port, part in enumerate(hosts.values(), 1):
        options = dict(pairwise(part.command))
        assert (options["--port"], options["--data"]) == (str(port), str(tmp_path / part.name))
    assert Addresses(_PORTS).operators == "http://127.0.0.1:4"
    assert Addresses(PlatformPorts(host=1)).operators == Addresses(PlatformPorts(host=1)).host


@NEEDS_ORDERS
def test_agents_do_not_know_where_the_state_store_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor from the environment or a file; their store is the same account, or is named.

    Agents that are all elsewhere have no host: it would have no function, and not start.
    """
    monkeypatch.setenv("StateStore", "the environment's")
    for role, part in _hosts(tmp_path, StateStore="one").items():
        assert bool(part.environment["StateStore"]) is (role is not AppRole.AGENTS)
        assert part.environment["AgentStore"] == "one"
    assert _hosts(tmp_path, AgentStore="own")[AppRole.AGENTS].environment["AgentStore"] == "own"
    others = set(AppRole) - {AppRole.AGENTS}
    assert _hosts(tmp_path, AGENTS_ELSEWHERE=" payment").keys() == others
    monkeypatch.setenv("AGENTS_ELSEWHERE", "payment")
    assert _hosts(tmp_path).keys() == others
    assert _hosts(tmp_path, AGENTS_ELSEWHERE="").keys() == set(AppRole)
