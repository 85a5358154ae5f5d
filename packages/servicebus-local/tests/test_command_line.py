"""The command line explains a mistake in one line, and stops quickly on a signal."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.servicebus import ServiceBusMessage

from servicebus_local.config import queues_named
from servicebus_local.server import Endpoints
from servicebus_local.storage.log import LogError
from servicebus_local.testing import RunningBroker, running_broker
from tests.broker_process import BrokerProcess, command, environment
from tests.clients import Links, open_links, take

pytestmark = pytest.mark.process


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """Write a configuration with one queue."""
    file = tmp_path / "queues.json"
    file.write_text(json.dumps({"queues": [{"name": "work"}]}))
    return file


def _refusal(words: list[str], **extra: str) -> str:
    done = subprocess.run(
        words, env=environment(**extra), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert done.stdout == ""
    lines = [line for line in done.stderr.splitlines() if not line.startswith("INFO ")]
    assert len(lines) == 1, done.stderr
    return lines[0]


def test_terminated_broker_stops_quickly_and_prints_one_line(config: Path, tmp_path: Path) -> None:
    """The ready line is all there is on stdout; SIGTERM ends the broker with clients connected, code 0."""
    with (
        BrokerProcess(command(config, tmp_path / "data")) as broker,
        socket.create_connection(("127.0.0.1", broker.port)),
    ):
        started = time.monotonic()
        assert broker.terminate() == (0, "")
        assert time.monotonic() - started < 30, "it waits for its clients"


def test_queues_are_named_by_options_or_read_from_standard_input(config: Path, tmp_path: Path) -> None:
    """Without a file: `--queue NAME` for each queue, or `--config -`."""
    options = ["--data", str(tmp_path / "data"), "--port", "0", "--admin-port", "0"]
    program = [sys.executable, "-m", "servicebus_local", *options]
    with BrokerProcess([*program, "--queue", "work", "--queue", "more"]) as broker:
        assert _queues(broker) == ["work", "more"]
    with BrokerProcess([*program, "--config", "-"], standard_input=config.read_text()) as broker:
        assert _queues(broker) == ["work"]


def _queues(broker: BrokerProcess) -> list[str]:
    _, queues = RunningBroker(Endpoints(broker.port, broker.admin_port)).admin("GET", "/queues")
    return [queue["name"] for queue in queues]


def test_second_broker_on_the_same_folder_is_refused(config: Path, tmp_path: Path) -> None:
    """Two brokers never write one log; the folder is free again when the first is killed."""
    with BrokerProcess(command(config, tmp_path / "data")):
        assert "is in use by another broker" in _refusal(command(config, tmp_path / "data"))
    with BrokerProcess(command(config, tmp_path / "data")):
        pass


def test_expired_message_stays_until_a_receive_operation_with_the_option(tmp_path: Path) -> None:
    """Until then it can be peeked, also after a restart. It is never delivered."""
    config = tmp_path / "queues.json"
    properties = {"deadLetteringOnMessageExpiration": True}
    config.write_text(json.dumps({"queues": [{"name": "work", "properties": properties}]}))
    words = [*command(config, tmp_path / "data"), "--expire-on-receive"]
    with BrokerProcess(words) as broker, open_links(broker.port) as links:
        message = ServiceBusMessage("old", time_to_live=timedelta(seconds=1))
        links.sender("work").send_messages(message)
        _peek_expired(links)
    with BrokerProcess(words) as broker, open_links(broker.port) as links:
        _peek_expired(links)
        figures = RunningBroker(Endpoints(broker.port, broker.admin_port)).figures("work")
        assert (figures["active"], figures["dead_lettered"], figures["expired"]) == (1, 0, 0)
        links.sender("work").send_messages(ServiceBusMessage("new"))
        assert [str(each) for each in take(links.receiver("work"))] == ["new"]
        (dead,) = take(links.dead_letters("work"))
        assert (str(dead), dead.dead_letter_reason) == ("old", "TTLExpiredException")


def _peek_expired(links: Links) -> None:
    """Peek the only message until its time to live has passed."""
    receiver, is_expired = links.receiver("work"), False
    while not is_expired:
        (peeked,) = receiver.peek_messages(5, sequence_number=1)
        assert peeked.expires_at_utc is not None
        is_expired = peeked.expires_at_utc < datetime.now(UTC) - timedelta(milliseconds=200)


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
def test_taken_port_is_named_with_its_option(config: Path, tmp_path: Path, option: str) -> None:
    """A port in use is named, with the option that chooses another."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        words = command(config, tmp_path / "data", **{option.strip("-").replace("-", "_"): port})
        line = _refusal(words)
    assert f"port {port} is in use" in line
    assert f"another port with {option} " in line


def test_broker_does_not_start_inside_azure(config: Path, tmp_path: Path) -> None:
    """On an App Service instance the broker refuses."""
    assert "local only" in _refusal(command(config, tmp_path / "data"), WEBSITE_INSTANCE_ID="1")


def test_wrong_configuration_is_one_line(tmp_path: Path) -> None:
    """A wrong configuration is reported in one line that names the file."""
    line = _refusal(command(tmp_path / "missing.json", tmp_path / "data"))
    assert line.startswith(f"{tmp_path / 'missing.json'}: can't be read")


def test_damaged_log_is_one_line(config: Path, tmp_path: Path) -> None:
    """A data folder with a damaged log is named, with the fix."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "messages.sqlite").write_bytes(b"not a database" * 100)
    assert "is damaged" in _refusal(command(config, tmp_path / "data"))


def test_broker_in_a_test_raises_the_errors_of_its_start(tmp_path: Path) -> None:
    """The test does not hang."""
    with (
        running_broker(queues_named(["work"]), tmp_path),
        pytest.raises(LogError, match="in use by another broker"),
        running_broker(queues_named(["work"]), tmp_path),
    ):
        pass
