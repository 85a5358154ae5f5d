"""The local platform as a library: Azurite, the Service Bus broker and the Functions host, started as one.

`python -m local` is its command line; tests and measurements use `Platform`.
"""

from __future__ import annotations

from local.platform.blueprint import azurite_alone, broker_alone
from local.platform.errors import (
    FolderInUseError,
    PartFailedError,
    PlatformError,
    PortTakenError,
    StartRefusedError,
)
from local.platform.folder import reset
from local.platform.interruption import INTERRUPTED, until_stop_signal
from local.platform.lifecycle import Platform
from local.platform.options import ANY_PORTS, Addresses, PlatformOptions, PlatformPorts
from local.platform.parts import PartName
from local.platform.process import ROOT

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
