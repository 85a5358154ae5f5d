"""The composition root of the product, with the tests' wide workflows."""

from __future__ import annotations

import aiohttp
import azure.durable_functions as df
import azure.functions as func

from functions.agents import remote
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.side_by_side.workflows import REGISTRATIONS

# A call that a test holds is one call, however long it takes.
remote._ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=None)

settings = load_settings()
wiring = Wiring(settings, REGISTRATIONS)
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
