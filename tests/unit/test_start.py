"""What a start must not load: each new instance pays for it before it can take its first order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from functions.agents.endpoints import url_setting
from functions.workflows.registry import load_registrations
from tests.security.conftest import SETTINGS

#: The event hub's clients are to come later, too.
_HUB = {
    "EventHubConnection": "Endpoint=sb://127.0.0.1;SharedAccessKeyName=local;SharedAccessKey=local",
    "SUBMIT_TO": "hub",
}

#: Each takes a large part of a second: web applications, identities, the bus, exporters.
LATER = {
    "azure.eventhub",
    "azure.identity",
    "azure.monitor",
    "azure.servicebus",
    "azure.storage.blob",
    "cryptography",
    "fastapi",
    "fastapi_offline",
    "functions.api.application",
    "functions.operations.application",
    "functions.services.application",
    "msal",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "pyrate_limiter",
    "starlette",
}

#: The functions are registered, and nothing is connected to.
_START = """
import gc, sys
from functions.wiring import Wiring
Wiring.prepare = lambda self: None
import function_app
print(gc.get_threshold()[0], gc.get_freeze_count(), len(function_app.app.get_functions()), *sys.modules)
"""


def test_what_a_start_does_not_need_comes_later() -> None:
    """All functions are registered without it, those of the sample services, too."""
    steps = [step for each in load_registrations() for step in each.workflow.steps]
    addresses = {url_setting(step.agent): "https://service.example" for step in steps}
    started = subprocess.run(
        [sys.executable, "-c", _START],
        cwd=Path(__file__).parents[2],
        env={**SETTINGS, **_HUB, **addresses},
        check=True,
        capture_output=True,
        text=True,
    )
    new_objects, frozen, functions, *modules = started.stdout.split()
    assert int(functions) > 20
    assert int(new_objects) > 50_000, "garbage is collected often: a seventh of a busy process's time"
    assert int(frozen) > 0
    assert LATER.isdisjoint(modules), sorted(LATER.intersection(modules))
