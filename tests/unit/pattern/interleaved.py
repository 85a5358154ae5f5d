"""The tasks whose events are interleaved at random, and how they are supervised."""

from __future__ import annotations

from datetime import timedelta

from functions.pattern.crowds import Behind, CrowdCause, CrowdPolicy
from functions.pattern.definition import Default, Workflow
from functions.pattern.states import Expiry, Remedy
from functions.pattern.supervision import SupervisionPolicy
from tests.fakes.workflows import awaiting, each, nested, step, workflow
from tests.unit.pattern.change_rules import CANCEL_WITHIN
from tests.unit.pattern.sound_record import LONGEST_EXTENSION

#: So many items run at the same time.
AT_ONCE = 1
POLICY = SupervisionPolicy(
    threshold=1,
    extended_waits=(timedelta(seconds=20),),
    skew=timedelta(seconds=5),
    start_within=timedelta(seconds=10),
    crowd=CrowdPolicy(longest=timedelta(seconds=LONGEST_EXTENSION)),
)
CROWD = Behind("Agent left", CrowdCause.NO_REPLY)


def lively_workflow(remedy: Remedy, *, idempotent: bool, by_default: bool = False) -> Workflow:
    """Define steps of each kind, side by side."""
    return workflow(
        step("open", undo=True),
        step("left", "open", undo=True),
        step("right", "open", idempotent=idempotent),
        awaiting("approve", "open", on_expiry=Default({"approved": True}) if by_default else Expiry.REFUSE),
        nested("part", "open"),
        each("call", "open", undo=True, at_once=AT_ONCE),
        step("close", "left", "right", "approve", "part", "call", undo=True),
        remedy=remedy,
        cancel_within=CANCEL_WITHIN,
    )
