"""The composition root of the product; a file that a setting names says which workflows are not deployed."""

from __future__ import annotations

import os
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS

missing = Path(os.environ["MISSING_WORKFLOWS"]).read_text(encoding="utf-8").split()

settings = load_settings()
wiring = Wiring(settings, [each for each in REGISTRATIONS if each.workflow.name not in missing])
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
