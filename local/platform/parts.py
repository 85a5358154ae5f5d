"""What a part of the local platform is: a process to start, a way to see it ready, a way to stop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class PartName(StrEnum):
    """The parts, by the names that the log shows."""

    #: Microsoft's storage emulator: blobs, queues and the tables that hold the state.
    AZURITE = "azurite"
    #: Our Service Bus broker.
    BROKER = "broker"
    #: Our Functions host, which runs the application.
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Readiness:
    """How to see that a part serves: a GET of `url` is answered.

    With `any_status`, an error answer counts too: Azurite answers 400 to a plain GET, and that proves it
    serves.
    """

    url: str
    any_status: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the platform.

    `environment` is added to our own. `stop_within` is how many seconds the part gets between SIGTERM and
    SIGKILL. A part that is not `crash_safe` loses accepted data when it is killed, so the platform does so
    only in need.
    """

    name: PartName
    command: tuple[str, ...]
    ready: Readiness
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_within: float = 2.0
    crash_safe: bool = True
