"""The composition root: reads the settings, joins the parts, registers the functions."""

from __future__ import annotations

from functions.settings import load_settings
from functions.wiring import Wiring, collect_garbage_rarely, start_telemetry
from functions.workflows.registry import load_registrations

settings = load_settings()
start_telemetry(settings)
wiring = Wiring(settings, load_registrations())
wiring.prepare()

app = wiring.function_app()

collect_garbage_rarely()
