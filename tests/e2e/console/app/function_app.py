"""The composition root of the product, with the workflows of the console's tests."""

from __future__ import annotations

import azure.functions as func

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.console.workflows import REGISTRATIONS

wiring = Wiring(load_settings(), REGISTRATIONS)
wiring.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
