"""The composition root of the product, with what is deployed on this host."""

from __future__ import annotations

import os
from pathlib import Path

import azure.durable_functions as df
import azure.functions as func

from functions.machine import collect_garbage_rarely
from functions.settings import load_settings
from functions.wiring import Wiring, start_telemetry
from tests.chaos.app.deployment import Deployed
from tests.chaos.app.journal import journal_requests
from tests.chaos.app.sending import stamp_requests

stamp_requests()
journal_requests(Path(os.environ["JOURNAL"]))

deployed = Deployed.model_validate_json(Path(os.environ["DEPLOYED"]).read_bytes())

settings = load_settings()
start_telemetry(settings)
wiring = Wiring(settings, deployed.registrations)
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)

collect_garbage_rarely()
