"""The tutorial's pages: each further step works, and a workflow can be removed or added alone."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, SecretStr

from functions.pattern.definition import Registry, Step
from functions.pattern.identity import Birth, StepName, TaskId
from functions.pattern.messages import SubmissionMessage, order_of
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.secret_fields import HIDDEN, SecretFields
from functions.pattern.states import Remedy
from functions.pattern.transitions import admit
from functions.workflows.registry import FOLDERS
from tests.fakes.clock import START
from tests.fakes.tasks import claimed, completed, started, told
from tests.fakes.workflows import step, workflow
from tests.house.documents import ROOT
from tests.infra.azure.published import FOLDER as AZURE_TYPES
from tests.tutorial.project import REGISTRY, WORKFLOW, add_workflow, shown

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


def test_secret_fields_are_hidden_and_can_be_used() -> None:
    """As the page shows them."""
    [listing] = [block.text for block in shown() if "writeOnly" in block.text]
    names: dict[str, Any] = {
        "Annotated": Annotated,
        "BaseModel": BaseModel,
        "Field": Field,
        "SecretStr": SecretStr,
    }
    exec(compile(listing, "page", "exec", dont_inherit=True), names)  # noqa: S102 - the page's own
    sent = {"card": "4111 1111", "pin": 7}
    assert SecretFields(names["Payer"]).hide(sent) == {"card": HIDDEN, "pin": HIDDEN}
    payer = names["Payer"].model_validate(sent)
    assert payer.card.get_secret_value() == sent["card"]
    assert payer.model_dump(mode="json")["card"] == "*" * 10


def _file(name: str) -> str:
    [text] = [block.text for block in shown() if block.file == name]
    return text


def test_application_differs_in_the_workflow_and_the_registry() -> None:
    """A workflow is a folder, and an entry in one list."""
    changed = {block.file for block in shown() if block.file and block.file.startswith("functions/")}
    assert {name for name in changed if not name.startswith(f"{WORKFLOW}/")} == {REGISTRY}


def test_registry_has_one_line_for_each_workflow() -> None:
    """The tutorial adds such a line; removing a workflow removes one."""
    assert _file(REGISTRY) == '    "trips",\n'
    lines = (ROOT / REGISTRY).read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if line in {f'    "{folder}",' for folder in FOLDERS}] == [
        f'    "{folder}",' for folder in FOLDERS
    ]


def test_settings_are_the_addresses_of_the_new_agents() -> None:
    """Each is named after its Agent."""
    settings = json.loads(_file("local.settings.json"))["Values"]
    assert settings.keys() == {"FLIGHT_URL", "HOTEL_URL", "CAR_URL"}


_IGNORED = shutil.ignore_patterns(".*", "__pycache__", "node_modules")
#: The tests that cover the whole application, or every document.
_WHOLE = ("tests/security", "tests/infra", "tests/house/test_docs.py", "tests/unit/workflows")


def _remove_workflow(name: str, folder: Path) -> None:
    """Remove a workflow as the tutorial says."""
    for each in (folder / "functions", *(folder / "tests").iterdir()):
        shutil.rmtree(each / "workflows" / name, ignore_errors=True)
    registry = folder / REGISTRY
    line = f'    "{name}",\n'
    text = registry.read_text(encoding="utf-8")
    assert line in text
    registry.write_text(text.replace(line, ""), encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
def test_nothing_else_imports_the_workflow(name: str) -> None:
    """Neither the application nor the tests, except in the workflow's own folders."""
    imported = re.compile(rf"functions\.workflows(\.| import ([\w ,]*|\([\w\s,]*)\b){name}\b")
    files = [path for ring in ("functions", "local", "tests") for path in (ROOT / ring).rglob("*.py")]
    own = (f"workflows/{name}/", f"workflows_next/{name}/")  # the latter takes its place
    outside = [path for path in files if not any(each in str(path) for each in own)]
    assert [str(path.relative_to(ROOT)) for path in outside if imported.search(path.read_text("utf-8"))] == []


@pytest.mark.night
@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "change",
    [pytest.param(partial(_remove_workflow, name), id=f"without {name}") for name in FOLDERS]
    + [pytest.param(add_workflow, id="with another")],
)
def test_the_tests_still_pass(tmp_path: Path, change: Callable[[Path], None]) -> None:
    """In a copy of the project: those tests that cover the whole of it."""
    copy = tmp_path / "project"
    shutil.copytree(ROOT, copy, ignore=_IGNORED)
    for name in (".funcignore", ".gitignore", ".ci", ".github"):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name)
        elif (ROOT / name).exists():
            shutil.copy(ROOT / name, copy / name)
    change(copy)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not process", "--quiet", "-p", "no:cacheprovider", *_WHOLE],
        cwd=copy,
        env={**os.environ, "AZURE_TYPES": str(AZURE_TYPES)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-1_000:]
