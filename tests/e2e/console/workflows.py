"""Deliveries in two versions, bookings with a charge that must not repeat, and orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pydantic import SecretStr

from functions.pattern.definition import Json, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Expiry, Remedy
from functions.workflows.registration import Registration
from tests.e2e.fleet.workflows import AGENTS, HOLDING, UNDOING, Parcel
from tests.fakes import orders
from tests.fakes.workflows import awaiting, nested, step, workflow

#: Deliveries that are held for an operator instead of being undone, and those that are undone.
NEWEST = replace(HOLDING, version=3)
NEWEST_UNDOING = replace(UNDOING, version=3)
OLDER = replace(HOLDING, version=2)
#: Is not deployed any more, and ended in another step; and was deployed for a while, and taken back.
GONE = replace(
    HOLDING, version=1, steps=(*HOLDING.steps[:-1], replace(HOLDING.steps[-1], name=StepName("handover")))
)
TAKEN_BACK = replace(HOLDING, version=4)


def _request(parcel: Parcel, _results: Mapping[StepName, Json]) -> Json:
    return parcel.model_dump()


def _booking(name: str, charged_within: float) -> Workflow:
    drone, account = StepName("drone"), StepName("account")
    return Workflow(
        name=name,
        resource=f"{name}s",
        payload=Parcel,
        on_failure=Remedy.HOLD,
        on_exhausted=Remedy.HOLD,
        steps=(
            Step(drone, agent="drone", request=_request, complete_within=15, undo=True),
            Step(
                account,
                agent="account",
                request=_request,
                complete_within=charged_within,
                needs={drone},
                idempotent=False,
            ),
            Step(
                StepName("delivery"), agent="delivery", request=_request, complete_within=15, needs={account}
            ),
        ),
    )


#: Its step `account` must not be repeated.
BOOKING = _booking("booking", charged_within=5)
#: The same, with more time than any test takes.
PATIENT = _booking("patient-booking", charged_within=240)

#: Has one step, and time for thousands at the same moment.
ERRAND = Workflow(
    name="errand",
    resource="errands",
    payload=Parcel,
    on_failure=Remedy.HOLD,
    on_exhausted=Remedy.HOLD,
    steps=(Step(StepName("drone"), agent="drone", request=_request, complete_within=60),),
)

#: Waits a day for an operator's approval; it is found by its weight.
APPROVED = workflow(
    awaiting("approve", complete_within=86_400),
    name="approval",
    resource="approvals",
    find_by=lambda parcel: [f"weight {parcel.weight}"],
)

#: Is held, as its auditor did not come in time; and what is held by a defect, before its step was dispatched.
AUDITED = workflow(
    awaiting("audit", complete_within=1, on_expiry=Expiry.HOLD, role="Auditor"),
    name="audit",
    resource="audits",
)
SEALED = workflow(
    replace(step("seal", undo=True), agent="drone", request=lambda _parcel, results: results["wax"]),
    name="seal",
    resource="seals",
)

#: Has an approval as a step.
NESTED = workflow(nested("permit", of="approval"), name="move", resource="moves")


class GuardedParcel(Parcel):
    """A parcel that is only handed out to who knows a word."""

    word: SecretStr


def _guarded(parcel: GuardedParcel, _results: Mapping[StepName, Json]) -> Json:
    return {"account": parcel.account, "word": parcel.word.get_secret_value()}


#: Has a secret in its payload, which its service needs.
GUARDED = Workflow(
    name="guarded",
    resource="guarded",
    payload=GuardedParcel,
    steps=(
        Step(StepName("drone"), agent="drone", request=_guarded, complete_within=15),
        Step(
            StepName("delivery"),
            agent="delivery",
            request=_guarded,
            complete_within=15,
            needs={StepName("drone")},
        ),
    ),
)

REGISTRATIONS = (
    Registration(NEWEST, AGENTS, older=(OLDER,)),
    Registration(BOOKING),
    Registration(PATIENT),
    Registration(APPROVED),
    Registration(AUDITED),
    Registration(SEALED),
    Registration(NESTED),
    Registration(ERRAND),
    Registration(GUARDED),
    orders.REGISTRATION,
)
