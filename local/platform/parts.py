"""The parts of the local platform, and its errors, each with the cause and the fix."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class PartName(StrEnum):
    """The parts, by their names in the log."""

    #: Microsoft's storage emulator: blobs, queues and the tables that hold the state.
    AZURITE = "azurite"
    BROKER = "broker"
    #: Our Functions host, which runs the application, or its front.
    HOST = "host"
    #: Further hosts of the whole application, which share the Durable hub of the first.
    HOST_2 = "host-2"
    HOST_3 = "host-3"
    HOST_4 = "host-4"
    SCHEDULER = "scheduler"
    AGENTS = "agents"
    SUPERVISOR = "supervisor"
    #: The Agent, in any language, that `agent-check` checks.
    AGENT = "agent"


#: The hosts of the whole application, where roles have none of their own.
HOSTS = (PartName.HOST, PartName.HOST_2, PartName.HOST_3, PartName.HOST_4)


@dataclass(frozen=True, slots=True)
class Readiness:
    """A part is ready when a GET of `url` succeeds; with `any_status`, when it is answered at all.

    Azurite answers 400 to a plain GET.
    """

    url: str
    any_status: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the platform.

    `environment` is added to the platform's own. All parts start at once; `after` names those that this one
    itself waits for, if the platform has them, each with the options of its command that make it wait.
    `prepare` is awaited before each start. `stop_within` is
    the time, in seconds, between SIGTERM and SIGKILL. A part that is not `crash_safe` loses accepted data
    when it is killed, so it is killed only if it does not stop.
    """

    name: PartName
    command: tuple[str, ...]
    ready: Readiness
    environment: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[PartName, tuple[str, ...]] = field(default_factory=dict)
    prepare: Callable[[], Awaitable[None]] | None = None
    stop_within: float = 2.0
    crash_safe: bool = True


class PlatformError(Exception):
    """The local platform cannot continue."""


class StartRefusedError(PlatformError):
    """The platform started nothing, because an option or the machine does not allow it."""


class PortTakenError(StartRefusedError):
    """A requested port belongs to another program."""

    def __init__(self, port: int, purpose: str, option: str, reason: str) -> None:
        super().__init__(
            f"Port {port}, meant for {purpose}, cannot be used ({reason.lower()}). "
            f"Stop the program that uses it, or choose another with {option} (0 takes any free one)."
        )
        self.port = port


class FolderInUseError(StartRefusedError):
    """The data folder is in use by a running platform."""


class PartFailedError(PlatformError):
    """A part ended without having been stopped, or did not become ready."""

    def __init__(self, part: PartName, what_happened: str, last_lines: Sequence[str]) -> None:
        lines = "".join(f"\n  {part} | {line}" for line in last_lines) or " nothing"
        super().__init__(f"The {part} {what_happened}. Its last lines:{lines}")
        self.part = part
        self.last_lines = tuple(last_lines)
