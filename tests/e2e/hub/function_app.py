"""The application with the workflow `letters` only."""

from __future__ import annotations

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.hub.letters import REGISTRATION

wiring = Wiring(load_settings(), (REGISTRATION,))
wiring.prepare()

app = wiring.function_app()
