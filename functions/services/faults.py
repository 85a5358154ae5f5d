"""The faults that can be set for the calls of one resource of a sample service."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

#: Instead of a resource's id: every resource of the service.
EVERY_ID = "*"


class CallFault(StrEnum):
    """How a call goes wrong."""

    #: It is delayed, and its work is done late.
    SLOW = "slow"
    #: Nothing is done, and the answer is 503.
    FAIL = "fail"
    #: Nothing is done, and the answer is 504.
    HANG = "hang"
    #: The work is done, but the caller gets 504 instead of the answer.
    LOSE_ANSWER = "lose-answer"
    #: Nothing is done, and all but an undo is refused with 422, which is permanent.
    REFUSE = "refuse"
    #: Nothing is done, and an undo (`DELETE`) is refused with 422, which is permanent.
    REFUSE_UNDO = "refuse-undo"


class Fault(BaseModel):
    """One fault switch: what goes wrong, for how many calls (null: for all), after a delay in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: CallFault
    times: Annotated[int, Field(ge=1, le=1_000)] | None = None
    seconds: Annotated[float, Field(ge=0, le=120)] = 0

    @model_validator(mode="after")
    def _is_felt(self) -> Self:
        if self.kind in {CallFault.SLOW, CallFault.HANG} and self.seconds == 0:
            raise ValueError(f"kind '{self.kind}' needs seconds")
        return self

    def concerns(self, method: str) -> bool:
        """Tell whether the fault applies to a call with this HTTP method."""
        if self.kind is CallFault.REFUSE:
            return method != "DELETE"
        return self.kind is not CallFault.REFUSE_UNDO or method == "DELETE"


class FaultView(Fault):
    """A fault switch that is set; `times` is the number of calls that it still applies to."""

    service: str
    id: str
