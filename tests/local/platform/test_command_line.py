"""The command line: its options and output, and the settings, ports and folder of the platform."""

from __future__ import annotations

import asyncio
import io
import json
import socket
import sys
from collections.abc import Iterator
from dataclasses import astuple, replace
from pathlib import Path

import pytest

from functions.workflows import registry
from local import commands
from local.command_line import main
from local.platform import (
    ANY_PORTS,
    Addresses,
    FolderInUseError,
    PartFailedError,
    PartName,
    PlatformError,
    PlatformOptions,
    PlatformPorts,
    PortTakenError,
    StartRefusedError,
    reset,
)
from local.platform import folder as folder_module
from local.platform import ports as ports_module
from local.platform.app import application_settings
from local.platform.blueprint import platform_stages
from local.platform.folder import held
from local.platform.ports import claimed
from local.platform.process import log_line


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[PlatformOptions]:
    """Return a list of the options with which `up` was called; nothing is started."""
    calls: list[PlatformOptions] = []

    async def up(options: PlatformOptions) -> int:
        calls.append(options)
        return 0

    monkeypatch.setattr(commands, "up", up)
    return calls


def test_up_takes_the_usual_ports_or_the_chosen_ones(started: list[PlatformOptions], tmp_path: Path) -> None:
    """Those of Core Tools, of Service Bus and of Azurite. One 0 chooses all three ports of Azurite."""
    ports = ["--port", "1", "--sb-port", "2", "--admin-port", "3", "--azurite-ports", "0"]
    assert main(["up"]) == 0
    assert main(["up", *ports, "--data", str(tmp_path), "--app", "elsewhere"]) == 0
    assert started == [
        PlatformOptions(ports=PlatformPorts(7071, 5672, 5300, 10000, 10001, 10002), data=Path(".local")),
        PlatformOptions(ports=PlatformPorts(1, 2, 3, 0, 0, 0), data=tmp_path, app=Path("elsewhere")),
    ]


def test_state_of_a_platform_in_memory_is_apart(started: list[PlatformOptions], tmp_path: Path) -> None:
    """Its messages and Durable instances belong to tables that are lost when it stops."""
    assert main(["up", "--data", str(tmp_path), "--in-memory"]) == 0
    [chosen] = started
    assert (chosen.in_memory_storage, chosen.state) == (True, tmp_path / "in-memory")
    [azurite, broker], [host] = platform_stages(chosen, Addresses(PlatformPorts()))
    assert {"--inMemoryPersistence"} < {*azurite.command}
    assert "--location" not in azurite.command
    for part in (broker, host):
        assert part.command[part.command.index("--data") + 1].startswith(str(chosen.state))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--port", "65536"], "'65536' is not a port"),
        (["up", "--azurite-ports", "1,2"], "give three ports"),
        (["chaos", "--orders", "0"], "'0' is not a number above 0"),
        (["chaos", "--minutes", "nan"], "'nan' is not a number of minutes"),
        (["chaos", "--minutes", "soon"], "'soon' is not a number of minutes"),
        (["bench", "--orders", "0"], "'0' is not a number above 0"),
        (["bench", "--profile", "nowhere/host.svg"], "'nowhere/host.svg' is not an .svg file in a folder"),
        (["bench", "--profile", "host.png"], "'host.png' is not an .svg file in a folder"),
        (["up", "--hosts", "5"], "'5' is not a number of hosts (1 to 4)"),
        (["demo", "--deliveries", "all"], "'all' is not a number of 0 or more"),
        (["demo", "--url", "127.0.0.1:7071"], "'127.0.0.1:7071' is not an address"),
        ([], "COMMAND"),
    ],
)
def test_a_wrong_option_is_refused_with_the_reason(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started."""
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("command", ["bench", "chaos", "cost"])
def test_command_names_the_samples_that_it_needs(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adopter may have deleted them. Nothing is started."""
    monkeypatch.setattr(registry, "FOLDERS", ["parcels", "deliveries"])
    assert main([command]) == 2
    text = f"{command} needs the sample workflows: register orders again.\n"
    assert capsys.readouterr() == ("", text)


def test_several_hosts_have_free_ports(
    started: list[PlatformOptions], capsys: pytest.CaptureFixture[str]
) -> None:
    """The first has the usual one, the operators' host of roles the next; several hosts have all roles."""
    assert main(["up", "--hosts", "3"]) == main(["up", "--roles", "split"]) == 0
    assert started[0].ports.hosts == [7071, 0, 0]
    assert started[1].ports.supervisor == 7072
    assert main(["up", "--hosts", "2", "--roles", "split"]) == 2
    assert "--hosts and --roles split exclude each other" in capsys.readouterr().err


def test_failure_ends_with_its_code_and_the_reason(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An address that does not answer, a part that failed, and a platform inside Azure."""
    assert main(["demo", "--orders", "1", "--url", "http://127.0.0.1:9"]) == 1
    assert "127.0.0.1:9" in capsys.readouterr().err
    with monkeypatch.context() as azure:
        azure.setenv("WEBSITE_INSTANCE_ID", "0123")
        assert main(["up", "--data", str(tmp_path)]) == 2
    assert "WEBSITE_INSTANCE_ID" in capsys.readouterr().err

    async def up(_: PlatformOptions) -> int:
        raise PartFailedError(PartName.HOST, "ended with exit code 3", ["the reason"])

    monkeypatch.setattr(commands, "up", up)
    assert main(["up"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines == ["The host ended with exit code 3. Its last lines:", "  host | the reason"]


ADDRESSES = Addresses(PlatformPorts(host=7171, service_bus=5772, table=10102))


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return an application folder with the sample settings."""
    _write(
        tmp_path / "local.settings.sample.json",
        STATE_SHARDS="16",
        PAYMENT_URL="http://127.0.0.1:7071/payments",
    )
    return tmp_path


def _write(file: Path, **values: str) -> None:
    file.write_text(json.dumps({"IsEncrypted": False, "Values": values}))


def _settings(app: Path, environment: dict[str, str] | None = None, **settings: str) -> dict[str, str]:
    return application_settings(app, environment or {}, ADDRESSES, settings)


@pytest.mark.parametrize(
    ("name", "usual", "own"),
    [
        ("STATE_SHARDS", "16", "4"),
        ("PAYMENT_URL", "http://127.0.0.1:7171/payments", "http://127.0.0.1:9000/pay"),
        ("AUTH_MODE", "local", "easyauth"),
    ],
)
def test_the_developers_file_wins_over_the_sample_and_the_environment_over_both(
    app: Path, name: str, usual: str, own: str
) -> None:
    """As with Core Tools; the options win over all. The sample alone is enough, with the real port."""
    assert _settings(app)[name] == usual
    _write(app / "local.settings.json", PAYMENT_URL="http://127.0.0.1:7071/payments")  # a copy of the sample
    assert _settings(app)[name] == usual
    _write(app / "local.settings.json", **{name: own})
    assert _settings(app)[name] == own
    assert _settings(app, {name: "other", "HOME": "/home/someone"})[name] == "other"
    assert _settings(app, {name: "other"}, **{name: "stronger"})[name] == "stronger"
    assert "HOME" not in _settings(app, {"HOME": "/home/someone"})
    assert _settings(app)["SAMPLE_SERVICES"] == "1"


def test_connections_are_always_those_of_the_running_parts(app: Path) -> None:
    """Nobody writes to their own account by accident. Only a connection to nothing local stays as it is."""
    _write(
        app / "local.settings.json",
        AzureWebJobsStorage="theirs",
        ServiceBusConnection="theirs",
        StateStore="theirs",
        Orders="Endpoint=sb://localhost;SharedAccessKey=x;UseDevelopmentEmulator=true;",
        Files="UseDevelopmentStorage=true",
        Other="Endpoint=sb://theirs.servicebus.windows.net;SharedAccessKey=x",
    )
    settings = _settings(app, {"StateStore": "theirs"})
    assert "TableEndpoint=http://127.0.0.1:10102/devstoreaccount1;" in settings["StateStore"]
    assert settings["AzureWebJobsStorage"] == settings["StateStore"]
    assert settings["ServiceBusConnection"].startswith("Endpoint=sb://127.0.0.1:5772;")
    assert settings["Orders"] == settings["ServiceBusConnection"]
    assert settings["Files"] == settings["StateStore"]
    assert settings["Other"].startswith("Endpoint=sb://theirs")


def test_event_hub_is_the_running_broker_s_where_it_is_asked_for(app: Path) -> None:
    """By the environment or the options. A test may name the broker of another platform."""
    emulator = {"EventHubConnection": "UseDevelopmentEmulator=true"}
    assert "EventHubConnection" not in _settings(app)
    for settings in (_settings(app, emulator), _settings(app, {}, **emulator)):
        assert settings["EventHubConnection"] == settings["ServiceBusConnection"]
    other = "Endpoint=sb://127.0.0.1:1;SharedAccessKey=x;UseDevelopmentEmulator=true"
    assert _settings(app, ServiceBusConnection=other)["ServiceBusConnection"] == other


@pytest.mark.parametrize("text", ["{", '{"Values": {"A": ["list"]}}'])
def test_a_broken_settings_file_is_refused_by_its_name(app: Path, text: str) -> None:
    """The developer learns which file to fix."""
    (app / "local.settings.json").write_text(text)
    with pytest.raises(StartRefusedError, match=r"local\.settings\.json is not a settings file"):
        _settings(app)


@pytest.fixture
def taken() -> Iterator[int]:
    """Yield a port on which another program listens."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("host", "--port"),
        ("service_bus", "--sb-port"),
        ("admin", "--admin-port"),
        ("table", "--azurite-ports"),
    ],
)
def test_a_taken_port_is_named_with_the_option_that_changes_it(
    taken: int, name: str, option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The developer learns the port, its purpose and the option, in one line."""
    with (
        pytest.raises(PortTakenError, match=rf"Port {taken}, .* {option} ") as refusal,
        claimed(replace(ANY_PORTS, **{name: taken})),
    ):
        pass
    assert refusal.value.port == taken
    others = ["--azurite-ports", "0"] if name != "table" else []
    ports = f"1,2,{taken}" if name == "table" else str(taken)
    assert main(["up", "--data", str(tmp_path), *others, option, ports]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_one_port_for_two_parts_is_refused_and_requested_ports_are_kept() -> None:
    """A free port that is requested twice is found before the second part fails."""
    with claimed(ANY_PORTS) as free:
        pass
    with pytest.raises(PortTakenError), claimed(replace(ANY_PORTS, host=free.host, admin=free.host)):
        pass
    with claimed(free) as again:
        assert again == free


def test_two_platforms_never_choose_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many ports as two platforms need, each gets its own, though nothing listens yet."""
    monkeypatch.setattr(ports_module, "_CHOICE", range(20_100, 20_140))
    monkeypatch.setattr(ports_module, "_ATTEMPTS", 40)
    with claimed(ANY_PORTS.split()) as first, claimed(ANY_PORTS.split()) as second:
        assert {*astuple(first)} & {*astuple(second)} == {None}
    with claimed(ANY_PORTS) as ports:
        assert (ports.are_split, ANY_PORTS.split().supervisor) == (False, 0)


def test_no_free_port_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """The search is bounded."""
    monkeypatch.setattr(ports_module, "_CHOICE", range(taken, taken + 1))
    monkeypatch.setattr(ports_module, "_ATTEMPTS", 1)
    with pytest.raises(PlatformError, match="No free port"), claimed(PlatformPorts(host=0)):
        pass


class _Stream(io.StringIO):
    """A terminal whose reader may have gone."""

    def __init__(self, *, is_terminal: bool = False, is_gone: bool = False) -> None:
        super().__init__()
        self._is_terminal, self._is_gone = is_terminal, is_gone

    def isatty(self) -> bool:
        """Return whether it is a terminal."""
        return self._is_terminal

    def write(self, text: str) -> int:
        """Fail like a pipe whose reader has gone, if it has."""
        if self._is_gone:
            raise BrokenPipeError
        return super().write(text)


@pytest.mark.parametrize(
    ("stream", "expected"),
    [
        (_Stream(), "host       | started\n"),
        (_Stream(is_terminal=True), "\033[33mhost       |\033[0m started\n"),
        (_Stream(is_gone=True), ""),
    ],
)
def test_every_line_begins_with_its_part(
    monkeypatch: pytest.MonkeyPatch, stream: _Stream, expected: str
) -> None:
    """Only a terminal gets a colour, of the prefix. `2>&1 | head` ends the log, not the platform."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    log_line(PartName.HOST, "started")
    assert stream.getvalue() == expected


async def test_folder_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path) -> None:
    """The refusal names the folder with the process that holds it, or the option that chooses another."""
    (tmp_path / "azurite").mkdir()
    async with held(tmp_path):
        in_use = rf"^[^\n]*{tmp_path} is in use by a running platform \(process \d+\)[^\n]*$"
        with pytest.raises(FolderInUseError, match=in_use):
            async with held(tmp_path):
                pass
        with pytest.raises(FolderInUseError):
            await reset(tmp_path)
    assert (tmp_path / "azurite").exists()
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(StartRefusedError, match=r"notes.txt cannot be used \(.+\).*--data"):
        async with held(tmp_path / "notes.txt"):
            pass


@pytest.mark.process
async def test_the_folder_stays_held_while_a_part_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part that outlives its platform, as an Azurite that is still saving may, keeps others out."""
    monkeypatch.setattr(folder_module, "_LEAVING_WITHIN", 0.1)
    async with held(tmp_path) as lock:
        part = await asyncio.create_subprocess_exec("cat", stdin=asyncio.subprocess.PIPE, pass_fds=(lock,))
    (tmp_path / "lock").write_text("999999999")  # the platform itself is gone
    with pytest.raises(FolderInUseError):
        async with held(tmp_path):
            pass
    await part.communicate()
    async with held(tmp_path):
        pass


async def test_reset_deletes_the_parts_state_and_says_so(tmp_path: Path) -> None:
    """Every part's folder is deleted, and its size printed; a developer's file stays, and other folders."""
    (tmp_path / "agents").mkdir()
    assert await reset(tmp_path / "typo") == await reset(tmp_path) == []
    assert _names_in(tmp_path) == ["agents"]
    for part in ("azurite", "servicebus", "host", "in-memory"):
        (tmp_path / part).mkdir()
    (tmp_path / "host" / "durable.db").write_bytes(b"x" * 1234)
    for name in ("lock", "notes.txt"):
        (tmp_path / name).write_text("mine")
    deleted = await reset(tmp_path)
    assert len(deleted) == 5
    assert f"{tmp_path / 'host'} (1,234 bytes)" in deleted
    assert _names_in(tmp_path) == ["lock", "notes.txt"]


def _names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
