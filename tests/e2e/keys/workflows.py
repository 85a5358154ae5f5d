"""Claims, which their submitter confirms and an approver approves; offers, which nobody accepts in time."""

from __future__ import annotations

from functions.pattern.states import Expiry
from functions.workflows.registration import Registration
from tests.fakes.workflows import awaiting, workflow

_CLAIM = workflow(
    awaiting("confirm", role="Submitter"),
    awaiting("approve", "confirm", role="Approver"),
    name="claim",
    resource="claims",
)
_OFFER = workflow(
    awaiting("accept", complete_within=0.5, on_expiry=Expiry.HOLD), name="offer", resource="offers"
)

REGISTRATIONS = (Registration(_CLAIM), Registration(_OFFER))
