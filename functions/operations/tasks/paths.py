"""How addresses name a task, and a step of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

from functions.pattern.definition import STEP_PATTERN
from functions.pattern.identity import TASK_ID_PATTERN

TaskIdPath = Annotated[
    str,
    Path(pattern=TASK_ID_PATTERN, description="The task's id, as its caller named it", examples=["order-1"]),
]

StepPath = Annotated[
    str,
    Path(pattern=rf"^{STEP_PATTERN}$", description="The step's name", examples=["payment"]),
]
