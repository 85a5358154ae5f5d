"""The README's texts about limits are the texts of a start, a call or the log."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from servicebus_local.amqp.performatives import Performative
from servicebus_local.amqp.requests import Request, answer_message
from servicebus_local.codec.encoding import composite
from servicebus_local.codec.values import Encodable, Encoded, Symbol
from servicebus_local.config import ConfigurationError, queues_named, read_config
from servicebus_local.content import Section
from servicebus_local.testing import running_broker
from tests.wire import (
    WireClient,
    attach_receiver,
    attach_sender,
    credit,
    data_message,
    performative,
    read_sections,
    transfer,
)

pytestmark = pytest.mark.process

_README = Path(__file__).parents[1] / "README.md"
#: A quoted text, a condition or a status; "…" in a text matches any text.
_SAID = re.compile(r'"([^"]+)"|`((?:amqp|com\.microsoft):[^`]+)`|\b(\d{3})\b(?! KiB)')
_MUTE = 'a second verdict after "server busy", by the clients for JavaScript and Go'


def _rows() -> dict[str, list[str]]:
    """Return the table of unsupported features, with the texts of each."""
    section = _README.read_text().partition("## What is not supported")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {what: ["".join(found) for found in _SAID.findall(says)] for what, says in lines[1:]}


def _start(tmp_path: Path, document: object) -> str:
    file = tmp_path / "queues.json"
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError) as refused:
        read_config(file)
    return str(refused.value)


def _queue(tmp_path: Path, **properties: object) -> str:
    return _start(tmp_path, {"queues": [{"name": "orders", "properties": properties}]})


def _call(tmp_path: Path, code: Performative, *frames: bytes) -> str:
    """Return the first performative of a kind that answers, with its message."""
    with (
        running_broker(queues_named(["orders"]), tmp_path) as broker,
        WireClient(broker.endpoints.port) as wire,
    ):
        wire.send(*frames)
        seen = wire.until(code)
        message = read_sections(seen.payload) if seen.payload else ""
        return f"{seen.fields} {message}"


def _request(tmp_path: Path, operation: str, arguments: Encodable = None) -> str:
    return _call(tmp_path, Performative.TRANSFER, WireClient.question("orders", operation, arguments))


def _session_receiver() -> bytes:
    source = composite(0x28, ["orders", *[None] * 6, {Symbol("com.microsoft:session-filter"): None}])
    ends: list[Encodable] = ["in", Encoded(b"\x43"), True, None, None, source, composite(0x29, ["here"])]
    return performative(Performative.ATTACH, *ends)


def _subscription(tmp_path: Path) -> str:
    name = "alerts/Subscriptions/ops"
    question = Request(Encoded(b"\x40"), None, {}, None, b"")
    token = answer_message(question, {"name": f"sb://here/{name}"}, None)
    links = (attach_sender("$cbs", 8), attach_receiver("$cbs", 9), credit(1, 9))
    told = _call(tmp_path, Performative.TRANSFER, *links, transfer(0, token, 8))
    refused = _call(tmp_path, Performative.DETACH, attach_receiver(name))
    assert "The local broker has no topics." in refused
    return told


def _greeting(tmp_path: Path, greeting: bytes) -> str:
    with (
        running_broker(queues_named(["orders"]), tmp_path) as broker,
        pytest.raises((EOFError, ConnectionError)),
        WireClient(broker.endpoints.port, greeting=greeting) as wire,
    ):
        wire.next()
    return ""


def _restart(tmp_path: Path) -> str:
    config = queues_named(["orders"])
    with running_broker(config, tmp_path) as broker, WireClient(broker.endpoints.port) as wire:
        wire.send(attach_sender("orders"), transfer(0, data_message(b"x")), attach_receiver("orders", 1))
        wire.send(credit(1, 1))
        received = read_sections(wire.until(Performative.TRANSFER).payload)
        token = received[Section.DELIVERY_ANNOTATIONS]["x-opt-lock-token"]
    return _request(tmp_path, "renew-lock", {"lock-tokens": [token]})


_TLS = b"\x16\x03\x01"
_PROBES: dict[str, Callable[[Path], str]] = {
    "sessions: a queue": lambda folder: _queue(folder, requiresSession=True),
    "sessions: a receiver": lambda folder: _call(folder, Performative.DETACH, _session_receiver()),
    "topics": lambda folder: _start(folder, {"queues": [], "topics": []}),
    "subscriptions": _subscription,
    "transactions": lambda folder: _call(
        folder, Performative.DETACH, attach_sender("", target=composite(0x30, []))
    ),
    "forwarding, partitions, other properties": lambda folder: _queue(folder, forwardTo="other"),
    "rules, batch deletion and the like": lambda folder: _request(folder, "add-rule"),
    "messages over 256 KiB": lambda folder: _call(
        folder, Performative.DISPOSITION, attach_sender("orders"), transfer(0, data_message(b"z" * 262_144))
    ),
    "TLS": lambda folder: _greeting(folder, _TLS),
    "AMQP over WebSockets, HTTP": lambda folder: _greeting(folder, b"GET / HTTP/1.1\r\n"),
    "`ServiceBusAdministrationClient`": lambda folder: _greeting(folder, _TLS),
    "locks over a restart": _restart,
    "authorisation": lambda folder: _greeting(folder, _TLS),
    "power failures": lambda folder: _greeting(folder, _TLS),
}


def test_every_limit_says_something() -> None:
    """But for one: the tests of those clients show it."""
    rows = _rows()
    assert rows.keys() == _PROBES.keys() | {_MUTE}
    assert [what for what, said in rows.items() if not said] == [_MUTE]


@pytest.mark.parametrize("what", _PROBES)
def test_limit_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture, what: str) -> None:
    """The texts of its row are in the answer, or in the log."""
    caplog.set_level("INFO")
    heard = _PROBES[what](tmp_path) + caplog.text
    for part in [part.strip() for said in _rows()[what] for part in said.split("…")]:
        assert part in heard
