"""What a part of the local platform is: a process to start, a readiness check, and how it is stopped."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class PartName(StrEnum):
    """The parts, by their names in the log."""

    #: Microsoft's storage emulator: blobs, queues and the tables that hold the state.
    AZURITE = "azurite"
    #: Our Service Bus broker.
    BROKER = "broker"
    #: Our Functions host, which runs the application, or its front.
    HOST = "host"
    #: Further hosts of the whole application, which share the Durable hub of the first.
    HOST_2 = "host-2"
    HOST_3 = "host-3"
    HOST_4 = "host-4"
    #: The host of the Scheduler, where roles have hosts of their own.
    SCHEDULER = "scheduler"
    #: The host of the Agents behind queues.
    AGENTS = "agents"
    #: The host of the Supervisor and the operators.
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
