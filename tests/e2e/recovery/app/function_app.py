"""The composition root of the product, with workflows whose remote service the tests script."""

from __future__ import annotations

import aiohttp
import azure.durable_functions as df
import azure.functions as func

from functions.agents import remote
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS

# On a busy machine a hanging call would reach this limit before the test has acted, and the Agent would
# retry. Here only complete-by ends a call, so that there is one call for an effect in each epoch.
remote._ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=None)

settings = load_settings()
wiring = Wiring(settings, REGISTRATIONS)
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
