"""A remote service that the test commands, the access of an Agent to it, and calls."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from functions.agents.agent_call import Call
from functions.core.record import Direction
from tests.fakes.remote_service import Answer
from tests.fakes.storage_process import virtual_now

KEY = "task-1.0a1b2c3d/payment/do"


def new_call(seconds: float = 10, **fields: Any) -> Call:
    """Return a call with `seconds` until its deadline."""
    values: dict[str, Any] = {
        "task": "task-1",
        "step": "payment",
        "direction": Direction.DO,
        "effect_key": KEY,
        "request": '{"amount":"4.90"}',
        "complete_by": virtual_now() + timedelta(seconds=seconds),
        "start_id": "start-id-of-this-call",
        "epoch": 1,
        "idempotent": True,
    }
    return Call(**values | fields)


def saying(content: object, status: int = 200) -> Answer:
    """Return an answer with JSON."""
    return Answer(status, (json.dumps(content).encode(),))
