"""The new composition root with the samples, and with a workflow of the tests."""

from __future__ import annotations

import os

import azure.functions as func

from functions.application_settings import load_settings
from functions.composition import Wiring
from functions.machine import collect_garbage_rarely
from functions.workflows_next.registry import load_registrations
from tests.next_app.workflows import NOTES

samples = () if os.environ.get("ONLY_NOTES") else load_registrations()
wiring = Wiring(load_settings(), [*samples, NOTES])
wiring.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)

collect_garbage_rarely()
