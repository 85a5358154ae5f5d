"""The three parts of the real platform, and the order in which they start."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from local.platform.errors import RefusedError
from local.platform.options import Addresses, PlatformOptions
from local.platform.parts import Part, PartName, Readiness
from local.platform.process import ROOT
from local.platform.settings import application_settings

#: Parts to start together, in the order of the groups; they stop in the opposite order.
type Stages = Sequence[Sequence[Part]]
#: Makes the parts from what was asked for and the ports that were chosen.
type Blueprint = Callable[[PlatformOptions, Addresses], Stages]

_AZURITE = ROOT / "node_modules" / ".bin" / "azurite"
_QUEUES = ROOT / "infra" / "queues.json"


def whole_platform(options: PlatformOptions, addresses: Addresses) -> Stages:
    """Return Azurite and the broker, then the host, which needs both.

    Raises `RefusedError` when Azurite is not installed, or a settings file cannot be read.
    """
    if not _AZURITE.exists():
        raise RefusedError(f"Azurite is not installed ({_AZURITE} is missing): run `make setup`.")
    data = options.data.resolve()
    first = [_azurite(addresses, data / "azurite", options), _broker(addresses, data / "servicebus")]
    return [first, [_host(addresses, data / "host", options)]]


def _azurite(addresses: Addresses, folder: Path, options: PlatformOptions) -> Part:
    where = ("--inMemoryPersistence",) if options.in_memory_storage else ("--location", str(folder))
    ports = addresses.ports
    return Part(
        name=PartName.AZURITE,
        command=(
            str(_AZURITE),
            *("--silent", "--skipApiVersionCheck", "--disableTelemetry"),
            *(
                "--blobPort",
                str(ports.blob),
                "--queuePort",
                str(ports.queue),
                "--tablePort",
                str(ports.table),
            ),
            *where,
        ),
        # The table service is the last of the three that Azurite starts.
        ready=Readiness(addresses.table, any_status=True),
        stop_within=3.3,
        crash_safe=options.in_memory_storage,
    )


def _broker(addresses: Addresses, folder: Path) -> Part:
    ports = addresses.ports
    return Part(
        name=PartName.BROKER,
        command=(
            *(sys.executable, "-m", "servicebus_local", "--config", str(_QUEUES), "--data", str(folder)),
            *("--port", str(ports.service_bus), "--admin-port", str(ports.admin)),
        ),
        ready=Readiness(f"{addresses.admin}/health"),
        stop_within=1.5,
    )


def _host(addresses: Addresses, folder: Path, options: PlatformOptions) -> Part:
    app = options.app.resolve()
    return Part(
        name=PartName.HOST,
        command=(
            *(sys.executable, "-m", "functions_local", "--app", str(app), "--data", str(folder)),
            *("--port", str(addresses.ports.host)),
        ),
        environment=application_settings(app, os.environ, addresses, options.settings),
        ready=Readiness(addresses.health),
        stop_within=1.5,
    )
