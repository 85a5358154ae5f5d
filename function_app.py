"""The composition root: reads the settings, joins the parts, registers the functions."""

from __future__ import annotations

import azure.functions as func

from functions.machine import collect_garbage_rarely
from functions.settings import load_settings
from functions.wiring import Wiring, start_telemetry
from functions.workflows.registry import load_registrations

settings = load_settings()
start_telemetry(settings)
wiring = Wiring(settings, load_registrations())
wiring.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)

collect_garbage_rarely()
