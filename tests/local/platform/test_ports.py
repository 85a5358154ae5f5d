"""Ports are checked before anything starts, and never used twice."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import astuple, replace

import pytest

from local.platform import ANY_PORTS, PlatformError, PlatformPorts, PortTakenError
from local.platform import ports as ports_module
from local.platform.ports import claimed


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
def test_a_taken_port_is_named_with_the_option_that_changes_it(taken: int, name: str, option: str) -> None:
    """The developer learns the port, its purpose and the option."""
    with (
        pytest.raises(PortTakenError, match=rf"Port {taken}, .* {option} ") as refusal,
        claimed(replace(ANY_PORTS, **{name: taken})),
    ):
        pass
    assert refusal.value.port == taken


def test_one_port_for_two_parts_is_refused() -> None:
    """A free port that is requested twice is found before the second part fails."""
    with claimed(ANY_PORTS) as free:
        pass
    with pytest.raises(PortTakenError), claimed(replace(ANY_PORTS, host=free.host, admin=free.host)):
        pass


def test_requested_ports_are_kept() -> None:
    """Only 0 is replaced."""
    with claimed(ANY_PORTS) as free:
        pass
    with claimed(free) as again:
        assert again == free


def test_chosen_ports_are_free_for_the_parts() -> None:
    """The claim does not block the part that gets the port."""
    with claimed(ANY_PORTS) as ports, socket.create_server(("127.0.0.1", ports.host)):
        pass


def test_two_platforms_never_choose_the_same_port(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many ports as two platforms need, each gets its own, though nothing listens yet."""
    monkeypatch.setattr(ports_module, "_CHOICE", range(20_100, 20_140))
    monkeypatch.setattr(ports_module, "_ATTEMPTS", 40)
    with claimed(ANY_PORTS.split()) as first, claimed(ANY_PORTS.split()) as second:
        assert not {*astuple(first)} & {*astuple(second)}


def test_hosts_of_roles_have_ports_only_where_there_are_any() -> None:
    """The operators' follows the callers', which is the only one to remember."""
    with claimed(ANY_PORTS) as ports:
        assert not ports.are_split
    assert PlatformPorts(host=7071).split().supervisor == 7072
    assert ANY_PORTS.split().supervisor == 0


def test_no_free_port_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch, taken: int) -> None:
    """The search is bounded."""
    monkeypatch.setattr(ports_module, "_CHOICE", range(taken, taken + 1))
    monkeypatch.setattr(ports_module, "_ATTEMPTS", 1)
    with pytest.raises(PlatformError, match="No free port"), claimed(PlatformPorts(host=0)):
        pass
