"""The local platform as a library: Azurite, the Service Bus broker and the Functions host, started as one.

`python -m local` is its command line; tests and measurements use `Platform`.
"""

from __future__ import annotations

from local.platform.blueprint import azurite_alone, broker_alone
from local.platform.folder import reset
from local.platform.lifecycle import Platform
from local.platform.options import ANY_PORTS, Addresses, PlatformOptions, PlatformPorts
from local.platform.parts import (
    FolderInUseError,
    PartFailedError,
    PartName,
    PlatformError,
    PortTakenError,
    StartRefusedError,
)
from local.platform.process import ROOT
from local.platform.readiness import INTERRUPTED, until_stop_signal

__all__ = [
    "ANY_PORTS",
    "INTERRUPTED",
    "ROOT",
    "Addresses",
    "FolderInUseError",
    "PartFailedError",
    "PartName",
    "Platform",
    "PlatformError",
    "PlatformOptions",
    "PlatformPorts",
    "PortTakenError",
    "StartRefusedError",
    "azurite_alone",
    "broker_alone",
    "reset",
    "until_stop_signal",
]
