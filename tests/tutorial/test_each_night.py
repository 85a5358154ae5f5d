"""The tutorial's step for each night, put in the place of its step for all of them."""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from functions.pattern.definition import Registry
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.readiness import Definitions
from functions.pattern.transitions import admit
from tests.fakes.clock import START
from tests.tutorial.project import WORKFLOW, shown

_IMPORTS = "from datetime import date, timedelta\n"


def _module(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import the tutorial's file of that name, with the step for each night behind the definition."""
    [code] = [block.text for block in shown() if block.file == f"{WORKFLOW}/{name}.py"]
    if name == "definition":
        [night] = [block.text for block in shown() if "EACH_NIGHT" in block.text]
        code = code.replace("import annotations\n", f"import annotations\n{_IMPORTS}", 1) + night
    file = folder / f"{name}.py"
    file.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"functions.workflows.trips.{name}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def test_each_night_is_booked_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a request of its own."""
    package = ModuleType("functions.workflows.trips")
    package.__path__ = []
    monkeypatch.setitem(sys.modules, package.__name__, package)
    _module("models", tmp_path, monkeypatch)
    defined = _module("definition", tmp_path, monkeypatch)
    flight, _, car = defined.TRIPS.steps
    trips = replace(defined.TRIPS, steps=(flight, defined.EACH_NIGHT, car))
    message = SubmissionMessage(
        task_id=TaskId("lisbon"),
        workflow="trip",
        payload={"traveller": "T-77", "destination": "LIS", "departure": "2027-03-01", "nights": 3},
        submitter="reader",
        submitted_at=START,
    )
    record = admit(order_of(message, trips, Birth("5d20c7e1")), pick_up_by=START)
    assert [step.name for step in record.steps] == ["flight", "hotel.0", "hotel.1", "hotel.2", "car"]
    request = Definitions(Registry((trips,), {}), record).request(StepName("hotel.2"))
    assert request == {"traveller": "T-77", "night": "2027-03-03"}
