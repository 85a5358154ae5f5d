"""The composition root of the product, with workflows whose one remote service the tests script."""

from __future__ import annotations

import os

import azure.durable_functions as df
import azure.functions as func

from functions.agents.payment import PaymentAgent
from functions.settings import load_settings
from functions.wiring import Remote, Wiring, remotes_of
from tests.e2e.recovery.workflows import STEPS, WORKFLOWS

settings = load_settings()
remotes = {name: Remote(f"{os.environ['REMOTE_URL']}/{name}", PaymentAgent) for name in STEPS}
wiring = Wiring(settings, WORKFLOWS, {**remotes_of(settings), **remotes})
wiring.prepare()

app = df.DFApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)
