"""The application with the workflow `letters` only."""

from __future__ import annotations

import azure.functions as func

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.hub.letters import REGISTRATION

wiring = Wiring(load_settings(), (REGISTRATION,))
wiring.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
