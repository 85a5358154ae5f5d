"""Invitations: the guest answers, after a reminder if need be; or else the host decides."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.workflow import EventStep, Json, Results, Step, Workflow, days
from functions.workflows_next.registration import Registration


class Invitation(BaseModel):
    """The guest to invite."""

    model_config = ConfigDict(extra="forbid")

    guest: str


class Reply(BaseModel):
    """The guest's answer."""

    model_config = ConfigDict(extra="forbid")

    comes: bool


def is_unanswered(_invitation: Invitation, results: Results) -> bool:
    """Return whether the guest has not answered at first."""
    return results[FIRST] is None


def is_still_unanswered(_invitation: Invitation, results: Results) -> bool:
    """Return whether the guest has not answered after the reminder."""
    return results[FIRST] is None and results[SECOND] is None


def _reminder(invitation: Invitation, _results: Results) -> Json:
    return {"guest": invitation.guest}


def _output(_invitation: Invitation, results: Results) -> Json:
    reply = results[FIRST] or results[SECOND] or results[HOST]
    return {"comes": reply is not None and reply.comes}


FIRST = EventStep(
    "first", event=Reply, role="Submitter", complete_within=days(7), when=None, on_timeout="continue"
)
REMIND = Step(
    "remind", agent="letters", needs=[FIRST], when=is_unanswered, request=_reminder, complete_within=20
)
SECOND = EventStep(
    "second",
    needs=[REMIND],
    when=is_unanswered,
    event=Reply,
    role="Submitter",
    complete_within=days(7),
    on_timeout="continue",
)
HOST = EventStep(
    "host",
    needs=[SECOND],
    when=is_still_unanswered,
    event=Reply,
    complete_within=days(2),
    on_timeout={"comes": False},
)

INVITATIONS = Workflow(
    "invitation",
    resource="invitations",
    payload=Invitation,
    steps=[FIRST, REMIND, SECOND, HOST],
    output=_output,
)

REGISTRATION = Registration(INVITATIONS)
