"""What operators do to a task beside resubmission, undo and answers; the other events are in `events.py`."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from functions.pattern.identity import Epoch, StepName


@dataclass(frozen=True, slots=True, kw_only=True)
class _ByOperator:
    """Somebody ends an epoch for a reason, in the span `traceparent` (W3C).

    The next epoch must have started by `start_by`, unless it is not to start.
    """

    epoch: Epoch
    who: str
    reason: str
    start_by: datetime
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParkRequested(_ByOperator):
    """An operator parks a task that is under way: nothing of it runs until it is unparked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparked(_ByOperator):
    """An operator has a task go on that an operator has parked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultGiven(_ByOperator):
    """An operator gives the result of a step that has failed, or got no answer: the task goes on after it."""

    step: StepName
    result: bytes = field(repr=False)
