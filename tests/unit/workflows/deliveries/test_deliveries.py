"""The workflow `deliveries`: its payload, requests, policies and output."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from functions.core.definition.defined_step import DefinedStep
from functions.workflow import Results
from functions.workflows.deliveries import REGISTRATION
from functions.workflows.deliveries.definition import DELIVERIES, crosses_service_area
from functions.workflows.deliveries.models import Assignment, Delivery, Label, Location, Quote, Schedule

PARCEL: dict[str, Any] = {"weight_kg": 2.5, "size": "small", "tag": "spare parts"}
PLACE: dict[str, Any] = {"latitude": 47.0, "longitude": -122.0}
DELIVERY: dict[str, Any] = {
    "account": "A-1042",
    "package": PARCEL,
    "pickup": PLACE,
    "dropoff": {"latitude": 47.1, "longitude": -122.0},
    "pickup_at": "2026-11-21T12:00:00Z",
}
RESULTS: dict[str, Any] = {
    "account": {},
    "package": Label(tracking_number="PK1"),
    "transport": Quote(carrier="Northway Couriers", price=Decimal("21.92"), currency="EUR"),
    "drone": Assignment(drone="drone-07"),
    "delivery": Schedule.model_validate({"expected_at": "2026-11-21T13:30:00+00:00"}),
}


def _request(step: str, payload: Delivery, **results: Any) -> object:
    defined: DefinedStep = DELIVERIES.steps[step]
    assert defined.request is not None
    return defined.request(payload, Results(RESULTS | results, step))


def _delivery(**change: object) -> Delivery:
    return Delivery.model_validate(DELIVERY | change)


def _output(payload: Delivery) -> object:
    assert DELIVERIES.output is not None
    return DELIVERIES.output(payload, Results(RESULTS, "output"))


def test_delivery_has_the_names_and_limits_of_the_first_release() -> None:
    """They are part of the API."""
    assert (DELIVERIES.name, DELIVERIES.resource, DELIVERIES.noun) == ("delivery", "deliveries", "delivery")
    assert {spec.name: spec.complete_within for spec in DELIVERIES.specs} == {
        "account": 10,
        "package": 15,
        "transport": 15,
        "drone": 20,
        "delivery": 15,
    }
    assert DELIVERIES.cancel_within == 600
    assert REGISTRATION.agents.keys() == DELIVERIES.steps.keys()
    assert (DELIVERIES.on_failure, DELIVERIES.on_exhausted) == ("compensate", "compensate")


def test_each_step_of_a_delivery_requests_its_part() -> None:
    """The last one names the results of the others; without transport there is no carrier."""
    far = _delivery(dropoff={"latitude": 48.0, "longitude": -122.0}, expedited=True)
    assert _request("account", far) == {"account": "A-1042"}
    assert _request("package", far) == PARCEL
    assert _request("transport", far) == {"weight_kg": 2.5, "distance_km": "111.2"}
    pickup = {"pickup": PLACE, "pickup_at": "2026-11-21T12:00:00Z"}
    assert _request("drone", far) == {"weight_kg": 2.5, **pickup}
    delivery = {
        **pickup,
        "account": "A-1042",
        "tracking_number": "PK1",
        "drone": "drone-07",
        "carrier": "Northway Couriers",
        "dropoff": {"latitude": 48.0, "longitude": -122.0},
        "expedited": True,
    }
    assert _request("delivery", far) == delivery
    assert _request("delivery", far, transport=None) == {**delivery, "carrier": None}
    assert _output(far) == {"tracking_number": "PK1", "expected_at": "2026-11-21T13:30:00Z"}


def test_order_of_the_steps_of_a_delivery() -> None:
    """The account first; package and transport side by side; the quote and the account are not undone."""
    steps = {
        "account": (set(), False),
        "package": ({"account"}, True),
        "transport": ({"account"}, False),
        "drone": ({"package", "transport"}, True),
        "delivery": ({"package", "transport", "drone"}, True),
    }
    assert {spec.name: (set(spec.needs), spec.undo) for spec in DELIVERIES.specs} == steps
    conditions = {name: step.when for name, step in DELIVERIES.steps.items() if step.when}
    assert conditions == {"transport": crosses_service_area}


@pytest.mark.parametrize(("north", "crosses"), [(0.0, False), (0.2697, False), (0.2699, True), (40.0, True)])
def test_transport_is_needed_beyond_thirty_kilometres(north: float, *, crosses: bool) -> None:
    """A degree of latitude is 111.19 km."""
    delivery = _delivery(dropoff={"latitude": 47.0 + north, "longitude": -122.0})
    assert crosses_service_area(delivery, Results({}, "transport")) is crosses


@pytest.mark.parametrize(
    ("one", "other", "kilometres"),
    [
        ((47.0, -122.0), (47.0, -122.0), 0.0),
        ((48.8566, 2.3522), (51.5074, -0.1278), 343.6),
        ((0.0, 179.9), (0.0, -179.9), 22.2),
        ((90.0, 0.0), (-90.0, 0.0), 20_015.1),
    ],
    ids=["nowhere", "paris-london", "date line", "poles"],
)
def test_distance_is_along_the_earth(
    one: tuple[float, float], other: tuple[float, float], kilometres: float
) -> None:
    """Both ways the same."""
    here, there = (Location(latitude=place[0], longitude=place[1]) for place in (one, other))
    assert here.kilometres_to(there) == pytest.approx(kilometres, abs=0.05)
    assert there.kilometres_to(here) == here.kilometres_to(there)


@pytest.mark.parametrize(
    "change",
    [
        *({"account": account} for account in ("", "A/1", "..", "x" * 65, "A-1\n")),
        *({"package": PARCEL | {"weight_kg": weight}} for weight in (0, 50.1, "2.5", float("nan"))),
        *({"package": PARCEL | other} for other in ({"size": "huge"}, {"tag": ""}, {"colour": "green"})),
        *({"pickup": PLACE | {"latitude": latitude}} for latitude in (90.1, float("nan"))),
        *({"pickup": PLACE | other} for other in ({"longitude": -180.1}, {"altitude": 3})),
        *({"pickup_at": time} for time in ("2026-11-21T12:00:00", "9999-12-31T23:59:59Z", "noon")),
        *({"dropoff": None}, {"expedited": "yes"}, {"priority": 1}),
    ],
)
def test_wrong_delivery_is_rejected(change: dict[str, Any]) -> None:
    """Strict from the start."""
    with pytest.raises(ValidationError):
        _delivery(**change)
