"""Why a ready step can't be started, and the parking of a task for what is not deployed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from functions.pattern.events import Parked
from functions.pattern.identity import Epoch, SchedulerId, StepName
from functions.pattern.texts import said_by


@dataclass(frozen=True, slots=True)
class CannotStart:
    """Why a ready step can't be started; one that `parks` can be, after the right deployment.

    Any other is a defect, which holds the task.
    """

    reason: str
    parks: bool
    fault: Exception | None = None

    @property
    def lasting(self) -> str:
        """Give the reason without what an exception says, which may be other words each time."""
        return self.reason if self.fault is None else self.reason.removesuffix(said_by(self.fault))

    def parked(self, epoch: Epoch, holder: SchedulerId | None, *, untold: StepName | None = None) -> Parked:
        """Park a task for this; `untold` is the step whose event could not be told."""
        reason, lasting = self.reason, self.lasting
        return Parked(epoch=epoch, scheduler=holder, reason=reason, lasting=lasting, untold=untold)


#: Tells whether the order needs a step that is ready (of a timer: until when), or why it can't be started.
LookAt = Callable[[StepName], bool | datetime | CannotStart]
