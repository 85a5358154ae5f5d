"""The tutorial's further steps, each put into its workflow: all that the page shows behind the definition."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from functions.pattern.definition import Registry, Step
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.states import Remedy
from functions.pattern.transitions import admit
from tests.fakes.clock import START
from tests.fakes.tasks import claimed, completed, started, told
from tests.fakes.workflows import step, workflow
from tests.tutorial.project import WORKFLOW, shown

TASK = TaskId("lisbon")
_TRIP = {"traveller": "T-77", "destination": "LIS", "departure": "2027-03-01", "nights": 3}
_RENTAL = workflow(step("rent"), name="rental")


def _module(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the tutorial's file of that name, with all that the page shows behind the definition."""
    [code] = [block.text for block in shown() if block.file == f"{WORKFLOW}/{name}.py"]
    if name == "definition":
        others = [block for block in shown() if block.file is None and block.language == "python"]
        code += "".join(f"\n\n{block.text}" for block in others if "writeOnly" not in block.text)
    file = folder / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"functions.workflows.trips.{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give what the page defines."""
    package = ModuleType("functions.workflows.trips")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, package.__name__, package)
    _module("models", tmp_path, monkeypatch)
    return _module("definition", tmp_path, monkeypatch)


def _booked(page: Any, *steps: Step, **wanted: str | int) -> tuple[TaskRecord, Definitions]:
    """Book a trip of the workflow with these steps in the places of its own, or behind them."""
    own: Mapping[StepName, Step] = {each.name: each for each in (*page.TRIPS.steps, *steps)}
    trips = replace(page.TRIPS, steps=tuple(own.values()))
    message = SubmissionMessage(
        task_id=TASK, workflow="trip", payload={**_TRIP, **wanted}, submitter="reader", submitted_at=START
    )
    record = admit(order_of(message, trips, Birth("5d20c7e1")), pick_up_by=START)
    return record, Definitions(Registry((trips, _RENTAL), {}), record)


def test_each_night_is_booked_by_itself(page: Any) -> None:
    """With a request of its own."""
    record, of = _booked(page, page.EACH_NIGHT)
    assert [each.name for each in record.steps] == ["flight", "hotel.0", "hotel.1", "hotel.2", "car"]
    assert of.request(StepName("hotel.2")) == {"traveller": "T-77", "night": "2027-03-03"}


def test_flight_is_undone_by_what_its_do_gave(page: Any) -> None:
    """Where that is unknown, the service has nothing but the traveller."""
    flight = replace(page.TRIPS.steps[0], undo_request=page._flight_undo)
    record, _ = _booked(page, flight)
    trip = page.Trip.model_validate(_TRIP)
    assert page._flight_undo(trip, {"flight": None}) == {"traveller": "T-77", "reference": None}
    assert page._flight_undo(trip, {"flight": {"reference": "F"}})["reference"] == "F"
    assert record.steps[0].name == "flight"


def test_long_trip_waits_for_its_approval_and_then_for_the_day_before(page: Any) -> None:
    """A short one for the day alone."""
    steps = (page.APPROVED, page.ON_THE_EVE)
    for nights, is_long in ((7, False), (8, True)):
        _, of = _booked(page, *steps, nights=nights)
        assert of.is_needed(page.APPROVAL) is is_long
        assert of.until(page.DAY_BEFORE) == datetime(2027, 2, 28, 9, tzinfo=UTC)
    assert of.event_model(page.APPROVAL) is page.Approval


def test_trip_can_do_without_its_ticket(page: Any) -> None:
    """Its policy stands before the workflow's; so does its retry."""
    record, of = _booked(page, page.APPROVED, page.ON_THE_EVE, page.SENT)
    flown = completed("flight", task=TASK, result=b'{"reference": "F"}')
    of = replace(of, record=told(record, claimed(task=TASK), started("flight", task=TASK), flown))
    assert of.request(page.TICKET) == {"to": "T-77", "flight": "F"}
    ticket = record.order.steps[-1]
    assert (ticket.name, ticket.on_failure) == (page.TICKET, Remedy.CONTINUE)
    assert page.SENT.retry.attempts == 3


def test_car_is_a_task_of_another_workflow(page: Any) -> None:
    """Which must be there."""
    _, of = _booked(page, page.RENTED, car="small")
    assert of.is_needed(page.CAR)
    assert of.request(page.CAR) == {"driver": "T-77", "category": "small"}
    assert of.child_workflow(page.CAR).name == _RENTAL.name
