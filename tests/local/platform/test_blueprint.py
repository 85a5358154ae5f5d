"""The parts of the real platform: their order, their options, and when each is ready."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

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
from local.platform.blueprint import whole_platform
from local.platform.imports import imported_modules
from local.platform.parts import Part, Readiness

ADDRESSES = Addresses(PlatformPorts(host=1, service_bus=2, admin=3, blob=4, queue=5, table=6))


@pytest.fixture(autouse=True)
def _azurite_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path)


def _part(name: PartName, options: PlatformOptions | None = None) -> Part:
    stages = whole_platform(options or PlatformOptions(), ADDRESSES)
    return next(part for stage in stages for part in stage if part.name is name)


def test_azurite_and_the_broker_stop_after_the_host() -> None:
    """It settles its messages and writes its last rows."""
    stages = whole_platform(PlatformOptions(), ADDRESSES)
    assert [[part.name for part in stage] for stage in stages] == [
        [PartName.AZURITE, PartName.BROKER],
        [PartName.HOST],
    ]


def test_the_host_loads_the_app_when_azurite_and_the_broker_answer() -> None:
    """It starts beside them, and waits by itself."""
    assert _part(PartName.HOST).after == {
        PartName.AZURITE: ("--after", ADDRESSES.table),
        PartName.BROKER: ("--after", "127.0.0.1:2"),
    }


def test_the_host_imports_early_what_the_app_imports(tmp_path: Path) -> None:
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


def test_each_part_keeps_its_state_in_its_own_folder(tmp_path: Path) -> None:
    """They are the folders that `reset` deletes."""
    options = PlatformOptions(data=tmp_path)
    for name, folder in [
        (PartName.AZURITE, "azurite"),
        (PartName.BROKER, "servicebus"),
        (PartName.HOST, "host"),
    ]:
        assert str(tmp_path / folder) in _part(name, options).command


@pytest.mark.parametrize(("in_memory", "folder"), [(False, "."), (True, "in-memory")])
def test_several_hosts_share_the_hub_of_the_first(tmp_path: Path, *, in_memory: bool, folder: str) -> None:
    """Each has its own port and folder; all call the sample services of the first. One shares nothing."""
    state = tmp_path / folder
    ports = replace(ADDRESSES.ports, host_2=7, host_3=8)
    chosen = PlatformOptions(data=tmp_path, in_memory_storage=in_memory)
    _, hosts = whole_platform(chosen, Addresses(ports))
    assert [host.name for host in hosts] == ["host", "host-2", "host-3"]
    for host, port in zip(hosts, (1, 7, 8), strict=True):
        options = dict(pairwise(host.command))
        assert (options["--port"], options["--data"]) == (str(port), str(state / host.name))
        assert options["--shared"] == str(state / "host")
        assert host.ready.url == f"http://127.0.0.1:{port}/admin/host/status"
        assert host.environment == hosts[0].environment
    assert "--shared" not in _part(PartName.HOST).command


def test_only_azurite_is_not_crash_safe() -> None:
    """Broker and host lose nothing when they are killed, nor does an Azurite that keeps nothing."""
    assert not _part(PartName.AZURITE).crash_safe
    assert _part(PartName.BROKER).crash_safe
    assert _part(PartName.HOST).crash_safe
    assert _part(PartName.AZURITE, PlatformOptions(in_memory_storage=True)).crash_safe


def test_everything_stops_within_five_seconds_even_if_all_hang() -> None:
    """The promise of Ctrl-C: the stages stop one after the other, each as slowly as its slowest part."""
    stages = whole_platform(PlatformOptions(), ADDRESSES)
    assert sum(max(part.stop_within for part in stage) for stage in stages) < 5


def test_the_host_is_not_killed_while_it_lets_functions_finish() -> None:
    """After their grace period it needs time to release messages and to end."""
    assert _part(PartName.HOST).stop_within >= STOP_GRACE + 0.5


def test_the_queues_are_those_that_the_app_declares(tmp_path: Path) -> None:
    """Its `infra/queues.json`, or the file that the options name, which is stronger."""
    declared = tmp_path / "infra" / "queues.json"
    declared.parent.mkdir()
    declared.write_text("{}")
    broker = _part(PartName.BROKER, PlatformOptions(app=tmp_path))
    assert broker.prepare is None
    assert str(declared) in broker.command
    chosen = _part(PartName.BROKER, PlatformOptions(app=tmp_path, queues=ROOT / "infra" / "queues.json"))
    assert str(ROOT / "infra" / "queues.json") in chosen.command


def test_the_hubs_are_those_that_the_app_declares(tmp_path: Path) -> None:
    """Its `infra/hubs.json`."""
    assert "--hubs" not in _part(PartName.BROKER, PlatformOptions(app=tmp_path)).command
    declared = tmp_path / "infra" / "hubs.json"
    declared.parent.mkdir()
    declared.write_text("{}")
    command = _part(PartName.BROKER, PlatformOptions(app=tmp_path)).command
    assert command[command.index("--hubs") + 1] == str(declared)


def test_a_missing_azurite_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It comes with `make setup`."""
    monkeypatch.setattr(blueprint, "_AZURITE", tmp_path / "missing")
    with pytest.raises(StartRefusedError, match="make setup"):
        whole_platform(PlatformOptions(), ADDRESSES)


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


async def test_a_bad_answer_is_asked_again() -> None:
    """Until it is a good one."""
    async with _answering(_BAD, b"no HTTP", _GOOD) as url:
        await readiness.until_answered(Readiness(url))


async def test_any_status_is_enough_where_that_is_asked_for() -> None:
    """Azurite answers 400 to a plain GET; something that is not HTTP is no answer."""
    async with _answering(b"no HTTP", _BAD) as url:
        await readiness.until_answered(Readiness(url, any_status=True))


@pytest.mark.parametrize(("answer", "said"), [(_BAD, "503 still starting"), (b"?", "not HTTP")])
async def test_the_last_bad_answer_is_in_the_error(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, said: str
) -> None:
    """The developer sees what the part said."""
    monkeypatch.setattr(readiness, "_READY_WITHIN", 3.0)
    async with _answering(answer) as url:
        with pytest.raises(TimeoutError, match=said):
            await readiness.until_answered(Readiness(url))
