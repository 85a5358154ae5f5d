"""The composition root of the application, with the workflow that is measured."""

from __future__ import annotations

from functions.settings import load_settings
from functions.wiring import Wiring, collect_garbage_rarely
from local.bench.five_steps.workflow import REGISTRATION

wiring = Wiring(load_settings(), (REGISTRATION,))
wiring.prepare()

app = wiring.function_app()

collect_garbage_rarely()
