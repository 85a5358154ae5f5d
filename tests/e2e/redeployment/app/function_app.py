"""The composition root of the product; a file that a setting names says which deployment this is."""

from __future__ import annotations

import os
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.redeployment.definitions import Deployment, registrations

deployment = Deployment(Path(os.environ["DEPLOYMENT"]).read_text(encoding="utf-8"))

settings = load_settings()
wiring = Wiring(settings, registrations(deployment))
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
