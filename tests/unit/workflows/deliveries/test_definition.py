"""The workflow `deliveries`: what callers may order, which steps it takes, and what each asks for."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from functions.pattern.definition import Json, Results
from functions.pattern.identity import StepName
from functions.pattern.states import Remedy
from functions.workflows.deliveries.definition import (
    ACCOUNT,
    DELIVERIES,
    DELIVERY,
    DRONE,
    PACKAGE,
    TRANSPORT,
    crosses_service_area,
)
from functions.workflows.deliveries.models import Delivery, Location

ORDER: dict[str, Any] = {
    "account": "A-1042",
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "pickup": {"latitude": 47.0, "longitude": -122.0},
    "dropoff": {"latitude": 47.1, "longitude": -122.0},
    "pickup_at": "2026-11-21T12:00:00Z",
}
RESULTS: Results = {
    ACCOUNT: {},
    PACKAGE: {"tracking_number": "PK1"},
    TRANSPORT: {"carrier": "Northway Couriers", "price": "21.92", "currency": "EUR"},
    DRONE: {"drone": "drone-07"},
}


def _delivery(**change: object) -> Delivery:
    return Delivery.model_validate(ORDER | change)


def _request(step: StepName, results: Results, **change: object) -> Json:
    return DELIVERIES.step(step).request(_delivery(**change), results)


def test_account_is_asked_for_before_anything_is_made() -> None:
    """Every other step needs it."""
    assert _request(ACCOUNT, {}) == {"account": "A-1042"}
    assert [step.name for step in DELIVERIES.steps if not step.needs] == [ACCOUNT]


def test_package_is_labelled_as_it_was_ordered() -> None:
    """Weight, size and tag."""
    assert _request(PACKAGE, {}) == ORDER["package"]


def test_transport_is_quoted_for_weight_and_distance() -> None:
    """To a tenth of a kilometre."""
    dropoff = {"latitude": 48.0, "longitude": -122.0}
    assert _request(TRANSPORT, {}, dropoff=dropoff) == {"weight_kg": 2.5, "distance_km": "111.2"}


def test_drone_is_asked_to_the_pickup() -> None:
    """What it must carry, where, and when."""
    assert _request(DRONE, {}) == {
        "weight_kg": 2.5,
        "pickup": ORDER["pickup"],
        "pickup_at": "2026-11-21T12:00:00Z",
    }


def test_delivery_names_what_the_steps_before_it_were_given() -> None:
    """Tracking number, drone and carrier."""
    assert _request(DELIVERY, RESULTS, expedited=True) == {
        "account": "A-1042",
        "tracking_number": "PK1",
        "drone": "drone-07",
        "carrier": "Northway Couriers",
        "pickup": ORDER["pickup"],
        "pickup_at": "2026-11-21T12:00:00Z",
        "dropoff": ORDER["dropoff"],
        "expedited": True,
    }


def test_delivery_without_transport_has_no_carrier() -> None:
    """The step was skipped."""
    assert _request(DELIVERY, {**RESULTS, TRANSPORT: None})["carrier"] is None


@pytest.mark.parametrize(("north", "crosses"), [(0.0, False), (0.2697, False), (0.2699, True), (40.0, True)])
def test_transport_is_needed_beyond_thirty_kilometres(north: float, crosses: bool) -> None:  # noqa: FBT001 - a table
    """A degree of latitude is 111.19 km."""
    delivery = _delivery(dropoff={"latitude": 47.0 + north, "longitude": -122.0})
    assert crosses_service_area(delivery, {}) is crosses


def test_transport_alone_has_a_condition() -> None:
    """Every delivery needs the rest."""
    assert [step.name for step in DELIVERIES.steps if step.when is not None] == [TRANSPORT]
    assert DELIVERIES.step(TRANSPORT).when is crosses_service_area


def test_refused_delivery_is_undone() -> None:
    """But for the account, which was only looked at, and the transport, which was only quoted."""
    assert (DELIVERIES.on_failure, DELIVERIES.on_exhausted) == (Remedy.COMPENSATE, Remedy.COMPENSATE)
    assert [step.name for step in DELIVERIES.steps if step.undo] == [PACKAGE, DRONE, DELIVERY]


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


def test_delivery_survives_being_written_down() -> None:
    """Recorded as JSON, it is the same when its steps are run."""
    delivery = _delivery()
    assert Delivery.model_validate(delivery.model_dump(mode="json")) == delivery
    assert Delivery.model_validate_json(delivery.model_dump_json()) == delivery


PLACE = ORDER["pickup"]
PARCEL = ORDER["package"]


@pytest.mark.parametrize(
    "change",
    [
        {"account": ""},
        {"account": "A/1"},
        {"account": "x" * 65},
        {"account": "A-1\n"},
        {"package": PARCEL | {"weight_kg": 0}},
        {"package": PARCEL | {"weight_kg": 50.1}},
        {"package": PARCEL | {"weight_kg": "2.5"}},
        {"package": PARCEL | {"weight_kg": float("nan")}},
        {"package": PARCEL | {"size": "huge"}},
        {"package": PARCEL | {"tag": ""}},
        {"pickup_at": "9999-12-31T23:59:59Z"},
        {"package": PARCEL | {"colour": "green"}},
        {"pickup": PLACE | {"latitude": 90.1}},
        {"pickup": PLACE | {"longitude": -180.1}},
        {"pickup": PLACE | {"latitude": float("nan")}},
        {"pickup": PLACE | {"altitude": 3}},
        {"dropoff": None},
        {"pickup_at": "2026-11-21T12:00:00"},
        {"pickup_at": "noon"},
        {"expedited": "yes"},
        {"priority": 1},
    ],
)
def test_wrong_delivery_is_refused(change: dict[str, Any]) -> None:
    """Strict from the start: what is not understood is not delivered."""
    with pytest.raises(ValidationError):
        _delivery(**change)


def test_caller_is_answered_what_to_track() -> None:
    """And when it arrives; nothing else of the results."""
    scheduled = {"expected_at": "2026-11-21T13:30:00Z"}
    assert DELIVERIES.answer is not None
    assert DELIVERIES.answer(_delivery(), {**RESULTS, DELIVERY: scheduled}) == {
        "tracking_number": "PK1",
        **scheduled,
    }
