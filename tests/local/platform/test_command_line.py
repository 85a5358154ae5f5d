"""Options are accepted or refused with a reason, and the exit code tells success from failure."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from local import command_line, commands
from local.command_line import main
from local.platform import PartFailedError, PartName, PlatformOptions, PlatformPorts


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[PlatformOptions]:
    """Return a list of the options with which `up` was called; nothing is started."""
    calls: list[PlatformOptions] = []

    async def up(options: PlatformOptions) -> int:
        calls.append(options)
        return 0

    monkeypatch.setattr(commands, "up", up)
    return calls


def test_up_takes_the_usual_ports(started: list[PlatformOptions]) -> None:
    """They are those of Core Tools, of Service Bus and of Azurite."""
    assert main(["up"]) == 0
    assert started == [
        PlatformOptions(ports=PlatformPorts(7071, 5672, 5300, 10000, 10001, 10002), data=Path(".local"))
    ]


def test_every_port_and_folder_can_be_chosen(started: list[PlatformOptions], tmp_path: Path) -> None:
    """One 0 stands for all three ports of Azurite."""
    ports = ["--port", "1", "--sb-port", "2", "--admin-port", "3", "--azurite-ports", "0"]
    assert main(["up", *ports, "--data", str(tmp_path), "--app", "elsewhere"]) == 0
    assert started == [
        PlatformOptions(ports=PlatformPorts(1, 2, 3, 0, 0, 0), data=tmp_path, app=Path("elsewhere"))
    ]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["up", "--port", "65536"], "'65536' is not a port"),
        (["up", "--azurite-ports", "1,2"], "give three ports"),
        (["chaos", "--orders", "0"], "'0' is not a number above 0"),
        (["bench", "--orders", "0"], "'0' is not a number above 0"),
        (["bench", "--profile", "nowhere/host.svg"], "'nowhere/host.svg' is not an .svg file in a folder"),
        (["bench", "--profile", "host.png"], "'host.png' is not an .svg file in a folder"),
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


def test_a_taken_port_ends_with_code_2_and_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the port and the option; there is no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        code = main(["up", "--port", str(port), "--azurite-ports", "0", "--data", str(tmp_path)])
    error = capsys.readouterr().err
    assert code == 2
    assert f"Port {port}" in error
    assert "--port" in error
    assert error.count("\n") == 1


def test_inside_azure_the_command_ends_with_code_2(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A platform that was deployed by mistake does not start."""
    monkeypatch.setenv("WEBSITE_INSTANCE_ID", "0123")
    assert main(["up", "--data", str(tmp_path)]) == 2


def test_a_part_that_failed_ends_with_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last lines are the error."""

    async def up(_: PlatformOptions) -> int:
        raise PartFailedError(PartName.HOST, "ended with exit code 3", ["the reason"])

    monkeypatch.setattr(commands, "up", up)
    assert command_line.main(["up"]) == 1
    assert (
        capsys.readouterr().err == "The host ended with exit code 3. Its last lines:\n  host | the reason\n"
    )


def test_reset_says_what_it_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A second reset finds nothing."""
    (tmp_path / "servicebus").mkdir()
    assert main(["reset", "--data", str(tmp_path)]) == 0
    assert main(["reset", "--data", str(tmp_path)]) == 0
    deleted = f"deleted {tmp_path / 'servicebus'} (0 bytes)\nnothing to delete in {tmp_path}\n"
    assert capsys.readouterr().out == deleted


def test_a_demo_against_nothing_ends_with_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    """The error says which address does not answer."""
    assert main(["demo", "--orders", "1", "--url", "http://127.0.0.1:9"]) == 1
    assert "127.0.0.1:9" in capsys.readouterr().err
