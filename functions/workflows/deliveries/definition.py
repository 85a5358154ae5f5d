"""The workflow `deliveries`: a task is processed as soon as its delivery is scheduled.

After the check of the account, the package is labelled. At the same time, a carrier quotes the transport to a
dropoff outside the service area. Then a drone is assigned, and the delivery is scheduled.
"""

from __future__ import annotations

from functions.workflow import Json, Results, Step, Workflow, minutes
from functions.workflows.deliveries.models import Assignment, Delivery, Label, Quote, Schedule


def crosses_service_area(delivery: Delivery, _results: Results) -> bool:
    """Return whether the dropoff is outside the service area, so a carrier must transport the package."""
    service_area_km = 30
    return delivery.distance_km > service_area_km


def _account_request(delivery: Delivery, _results: Results) -> Json:
    return {"account": delivery.account}


def _package_request(delivery: Delivery, _results: Results) -> Json:
    return delivery.package.model_dump(mode="json")


def _transport_request(delivery: Delivery, _results: Results) -> Json:
    return {"weight_kg": delivery.package.weight_kg, "distance_km": f"{delivery.distance_km:.1f}"}


def _drone_request(delivery: Delivery, _results: Results) -> Json:
    ordered = delivery.model_dump(mode="json", include={"pickup", "pickup_at"})
    return ordered | {"weight_kg": delivery.package.weight_kg}


def _delivery_request(delivery: Delivery, results: Results) -> Json:
    transport = results[TRANSPORT]
    ordered = delivery.model_dump(
        mode="json", include={"account", "pickup", "pickup_at", "dropoff", "expedited"}
    )
    return ordered | {
        "tracking_number": results[PACKAGE].tracking_number,
        "drone": results[DRONE].drone,
        "carrier": None if transport is None else transport.carrier,
    }


def _output(_delivery: Delivery, results: Results) -> Json:
    schedule = results[DELIVERY].model_dump(mode="json")
    return {"tracking_number": results[PACKAGE].tracking_number, **schedule}


ACCOUNT = Step("account", request=_account_request, complete_within=10)
PACKAGE = Step(
    "package", needs=[ACCOUNT], request=_package_request, result=Label, complete_within=15, undo=True
)
TRANSPORT = Step(
    "transport",
    needs=[ACCOUNT],
    when=crosses_service_area,
    request=_transport_request,
    result=Quote,
    complete_within=15,
)
DRONE = Step(
    "drone",
    needs=[PACKAGE, TRANSPORT],
    request=_drone_request,
    result=Assignment,
    complete_within=20,
    undo=True,
)
DELIVERY = Step(
    "delivery",
    needs=[PACKAGE, TRANSPORT, DRONE],
    request=_delivery_request,
    result=Schedule,
    complete_within=15,
    undo=True,
)

DELIVERIES = Workflow(
    "delivery",
    resource="deliveries",
    noun="delivery",
    payload=Delivery,
    steps=[ACCOUNT, PACKAGE, TRANSPORT, DRONE, DELIVERY],
    on_failure="compensate",
    on_exhausted="compensate",
    cancel_within=minutes(10),
    output=_output,
)
