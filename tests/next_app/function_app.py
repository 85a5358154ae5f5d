"""The new composition root with a trivial workflow."""

from __future__ import annotations

import os
from pathlib import Path

import azure.functions as func

from functions.composition import Wiring, load_settings
from functions.machine import collect_garbage_rarely
from tests.next_app.interim import FileAgent, InterimSender, handlers
from tests.next_app.workflows import NOTES

settings = load_settings()
agents = {"notes": FileAgent(Path(os.environ["NOTES_FILE"]))}
wiring = Wiring(settings, [NOTES], agents, InterimSender(settings), handlers)
wiring.prepare()

app = func.FunctionApp(http_auth_level=func.AuthLevel.FUNCTION)
for blueprint in wiring.blueprints():
    app.register_functions(blueprint)

collect_garbage_rarely()
