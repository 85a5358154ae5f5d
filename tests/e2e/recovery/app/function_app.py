"""The composition root of the product, with workflows whose remote service the tests script."""

from __future__ import annotations

from functions.agents import http_agent
from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.recovery.workflows import REGISTRATIONS

# The Agent would repeat a call that hangs. Without this limit there is one call of a step in each epoch.
http_agent._ATTEMPT_SECONDS = 86_400

wiring = Wiring(load_settings(), REGISTRATIONS)
wiring.prepare()

app = wiring.function_app()
