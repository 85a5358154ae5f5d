"""Deliveries in two versions, bookings with a charge that must not repeat, orders, and small workflows."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from functions.workflow import EventStep, Json, QueueStep, Results, Step, Workflow, WorkflowStep, days
from functions.workflows.registry import Registration


class Parcel(BaseModel):
    """The payload of most workflows."""

    model_config = ConfigDict(extra="allow")

    account: str


class Basket(BaseModel):
    """The payload of an order."""

    model_config = ConfigDict(extra="allow")

    customer: str


class Weight(BaseModel):
    """The payload of an approval."""

    weight: int


class Charge(BaseModel):
    """The result of a charge."""

    model_config = ConfigDict(extra="allow")


class Approval(BaseModel):
    """The event of an approval."""

    model_config = ConfigDict(extra="forbid")

    approved: bool


def _request(parcel: Parcel, _results: Results) -> Json:
    return parcel.model_dump()


def _charge(basket: Basket, _results: Results) -> Json:
    return {"customer": basket.customer}


ORDERS = Workflow(
    "orders",
    payload=Basket,
    steps=[QueueStep("payment", request=_charge, complete_within=60, undo=True)],
    on_failure="keep",
    on_exhausted="compensate",
    cancel_within=days(1),
)


def _delivery(
    version: int, last: str = "delivery", on_failure: Literal["keep", "compensate"] = "keep"
) -> Workflow[Parcel]:
    """Return deliveries: one step, two side by side, two more; three can be undone."""
    account = Step("account", request=_request, complete_within=15)
    package = Step("package", request=_request, complete_within=15, needs=[account], undo=True)
    transport = Step("transport", request=_request, complete_within=15, needs=[account])
    drone = Step("drone", request=_request, complete_within=15, needs=[package, transport], undo=True)
    steps = [account, package, transport, drone]
    steps.append(Step(last, request=_request, complete_within=15, needs=steps[1:], undo=True))
    return Workflow(
        "delivery",
        version=version,
        resource="deliveries",
        payload=Parcel,
        steps=steps,
        on_failure=on_failure,
        on_exhausted=on_failure,
    )


NEWEST, NEWEST_UNDOING, OLDER = _delivery(3), _delivery(3, on_failure="compensate"), _delivery(2)
#: Versions that are not deployed: an old one with another step, and one that was taken back.
GONE, TAKEN_BACK = _delivery(1, "handover"), _delivery(4)


def _booking(name: str, charged_within: float) -> Workflow[Parcel]:
    drone = Step("drone", request=_request, complete_within=15, undo=True)
    account = Step(
        "account",
        request=_request,
        result=Charge,
        complete_within=charged_within,
        needs=[drone],
        idempotent=False,
    )
    delivery = Step("delivery", request=_request, complete_within=15, needs=[account])
    return Workflow(name, resource=f"{name}s", payload=Parcel, steps=[drone, account, delivery])


#: Their step `account` must not be repeated. The second one has more time than any test takes.
BOOKING, PATIENT = _booking("booking", 5), _booking("patient-booking", 220)

#: One step, with time for many tasks at once.
ERRAND = Workflow(
    "errand",
    resource="errands",
    payload=Parcel,
    steps=[Step("drone", request=_request, complete_within=60)],
)

#: Waits a day for an operator's approval, and is found by its weight.
APPROVED = Workflow(
    "approval",
    resource="approvals",
    payload=Weight,
    steps=[EventStep("approve", event=Approval, complete_within=days(1))],
    find_by=lambda parcel: [f"weight {parcel.weight}"],
    output=lambda _parcel, _results: {},
)


def _defect(_parcel: Weight, _results: Results) -> Json:
    raise KeyError("wax")


#: Stops in `Error` before its step starts.
SEALED = Workflow(
    "seal", resource="seals", payload=Weight, steps=[Step("seal", agent="drone", request=_defect, undo=True)]
)


def _permit(parcel: Weight, _results: Results) -> Json:
    return parcel.model_dump()


#: Its step is an approval.
NESTED = Workflow(
    "move",
    resource="moves",
    payload=Weight,
    steps=[WorkflowStep("permit", workflow="approval", request=_permit, complete_within=days(1))],
)


class GuardedParcel(Parcel):
    """A parcel with a secret."""

    word: SecretStr


def _guarded(parcel: GuardedParcel, _results: Results) -> Json:
    return {"account": parcel.account, "word": parcel.word.get_secret_value()}


_DRONE = Step("drone", request=_guarded, complete_within=15)
GUARDED = Workflow(
    "guarded",
    payload=GuardedParcel,
    steps=[_DRONE, Step("delivery", request=_guarded, complete_within=15, needs=[_DRONE])],
)

REGISTRATIONS = (
    Registration(NEWEST, older=(OLDER,)),
    Registration(BOOKING),
    Registration(PATIENT),
    Registration(APPROVED),
    Registration(SEALED),
    Registration(NESTED),
    Registration(ERRAND),
    Registration(GUARDED),
    Registration(ORDERS),
)
