"""The composition root of the product, with the workflows of the console's tests."""

from __future__ import annotations

from functions.settings import load_settings
from functions.wiring import Wiring
from tests.e2e.console.workflows import REGISTRATIONS

wiring = Wiring(load_settings(), REGISTRATIONS)
wiring.prepare()

app = wiring.function_app()
