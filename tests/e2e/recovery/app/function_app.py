"""The composition root of the product, with workflows whose one remote service the tests script."""

from __future__ import annotations

import aiohttp
import azure.durable_functions as df
import azure.functions as func

from functions.agents import remote
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS

# On a busy machine a hanging call would reach this limit before the test has acted, and its Agent would
# call again. Here only complete-by ends a call, so that the calls for an effect are the epochs that made one.
remote._ATTEMPT_TIMEOUT = aiohttp.ClientTimeout(total=None)

settings = load_settings()
wiring = Wiring(settings, REGISTRATIONS)
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
