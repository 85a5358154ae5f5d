"""The workflow `deliveries`: a task is processed when its delivery is scheduled.

The account is checked; then the package is labelled and, for a dropoff outside of our service area, a
carrier's transport is quoted, side by side; then a drone is assigned, and its delivery scheduled.
"""

from __future__ import annotations

from functions.pattern.definition import Json, Results, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy
from functions.workflows.deliveries.models import Delivery

ACCOUNT = StepName("account")
PACKAGE = StepName("package")
TRANSPORT = StepName("transport")
DRONE = StepName("drone")
DELIVERY = StepName("delivery")


def crosses_service_area(delivery: Delivery, _results: Results) -> bool:
    """Return whether the dropoff lies outside the service area: a third party carries the package there."""
    service_area_km = 30
    return delivery.distance_km > service_area_km


def _account_request(delivery: Delivery, _results: Results) -> Json:
    return {"account": delivery.account}


def _package_request(delivery: Delivery, _results: Results) -> Json:
    return delivery.package.model_dump(mode="json")


def _transport_request(delivery: Delivery, _results: Results) -> Json:
    return {"weight_kg": delivery.package.weight_kg, "distance_km": f"{delivery.distance_km:.1f}"}


def _drone_request(delivery: Delivery, _results: Results) -> Json:
    wanted = delivery.model_dump(mode="json", include={"pickup", "pickup_at"})
    return wanted | {"weight_kg": delivery.package.weight_kg}


def _delivery_request(delivery: Delivery, results: Results) -> Json:
    transport = results[TRANSPORT]
    ordered = delivery.model_dump(
        mode="json", include={"account", "pickup", "pickup_at", "dropoff", "expedited"}
    )
    return ordered | {
        "tracking_number": results[PACKAGE]["tracking_number"],
        "drone": results[DRONE]["drone"],
        "carrier": None if transport is None else transport["carrier"],
    }


def _answer(_delivery: Delivery, results: Results) -> Json:
    return {
        "tracking_number": results[PACKAGE]["tracking_number"],
        "expected_at": results[DELIVERY]["expected_at"],
    }


DELIVERIES = Workflow(
    name="delivery",
    resource="deliveries",
    payload=Delivery,
    on_failure=Remedy.COMPENSATE,
    on_exhausted=Remedy.COMPENSATE,
    answer=_answer,
    cancel_within=600,
    steps=(
        Step(ACCOUNT, agent="account", request=_account_request, complete_within=10),
        Step(
            PACKAGE, agent="package", request=_package_request, complete_within=15, needs={ACCOUNT}, undo=True
        ),
        Step(
            TRANSPORT,
            agent="transport",
            request=_transport_request,
            complete_within=15,
            needs={ACCOUNT},
            when=crosses_service_area,
        ),
        Step(
            DRONE,
            agent="drone",
            request=_drone_request,
            complete_within=20,
            needs={PACKAGE, TRANSPORT},
            undo=True,
        ),
        Step(
            DELIVERY,
            agent="delivery",
            request=_delivery_request,
            complete_within=15,
            needs={PACKAGE, TRANSPORT, DRONE},
            undo=True,
        ),
    ),
)
