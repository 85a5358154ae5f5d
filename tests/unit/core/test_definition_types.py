"""Wrong definitions: mypy reports each that types can show, and the start each that it can, with the fix."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from functions.workflow import DefinitionError
from tests.house.documents import ROOT, code_blocks

_MISSPELT = '    return {"price": results[CARD].prize}'
_NAMES = f"""
from pydantic import BaseModel
from functions.workflow import *

class Trip(BaseModel):
    days: int

class Booking(BaseModel):
    price: int

def request(trip: Trip, results: Results) -> Json:
    return {{}}

def alone() -> Json:
    return {{}}

def misspelt(trip: Trip, results: Results) -> Json:
{_MISSPELT}

def too_early(trip: Trip, results: Results) -> Json:
    return {{"price": results[HOTEL].price}}

CARD = Step("card", request=request, result=Booking)
HOTEL = QueueStep("hotel", request=request, result=Booking)
"""
_OPTIONS_OF_A_TIMER = "TimerStep has no such option: use needs, until, when"
_INPUTS = "(the payload, the results)"

#: A wrong step, whether mypy reports its line, and the text of the start (None: the call of the step raises).
_WRONG: list[tuple[str, bool, str | None]] = [
    ('TimerStep("fly", until=request, undo=True)', True, f"undo: {_OPTIONS_OF_A_TIMER}"),
    (
        'QueueStep("fly", request=request, result=Booking, retry=Retry())',
        True,
        "retry: QueueStep has no such",
    ),
    ('Step("fly", result=Booking)', True, f"request: it is missing: add a function of {_INPUTS}"),
    ('TimerStep("fly")', True, f"until: it is missing: add a function of {_INPUTS}"),
    (
        'EventStep("fly", event=Booking)',
        True,
        "complete_within: required for an EventStep: add it, in seconds",
    ),
    (
        'WorkflowStep("fly", request=request, result=Booking)',
        True,
        "workflow: '' is no name: use one that matches",
    ),
    (
        'Step("fly", request=request, result=Booking, idempotent=False)',
        False,
        "complete_within: required with idempotent=False: add it",
    ),
    ('Step("fly", request=misspelt, needs=[CARD])', False, None),
    (
        'Step("fly", request=request, result=Booking, on_failure="hold")',
        True,
        'on_failure: \'hold\' is no policy: use "compensate" or "keep" or "continue"',
    ),
    (
        'Step("fly", request=alone, result=Booking)',
        True,
        "request: it takes other arguments (too many positional",
    ),
    ('Step("fly", request=request, result=Booking, undo=request)', True, "undo: it takes other arguments"),
    (
        'Step("fly", request=request, result=dict)',
        True,
        "result: <class 'dict'> is no model: use a class that inherits",
    ),
    ('Step("fly", request=request, needs=[1])', True, "needs: 1 is no step: use steps or their names"),
    (
        'Step("fly", request=request, needs="card")',
        False,
        "needs: 'card' is no list: use a list of steps, such as needs=[CARD]",
    ),
    ('Step("fly", request=too_early)', False, 'request uses results["hotel"]: add needs=["hotel"]'),
    (
        'EventStep("fly", event=Booking, complete_within=9, on_timeout={"price": "dear"})',
        False,
        "on_timeout: the default body does not fit: Booking rejects",
    ),
    (
        'Step("fly", request=request, result=Booking, complete_within="9")',
        True,
        "complete_within: '9' is no time limit: use seconds above 0",
    ),
]


_STEPS = [f"FLY_{number} = {code}" for number, (code, _, _) in enumerate(_WRONG)]


@pytest.mark.timeout(600)
def test_mypy_reports_wrong_definitions_and_no_sample(tmp_path: Path) -> None:
    """The misspelt attribute is reported where it is read, as the type of `results[CARD]` is inferred.

    The tutorial's workflow is a sample, too.
    """
    path, lines = tmp_path / "wrong_definition.py", [*_NAMES.splitlines(), *_STEPS]
    path.write_text("\n".join(lines), encoding="utf-8")
    shown = code_blocks("docs/your-own-workflow.md")
    [trips] = [block.text for block in shown if block.file == "functions/workflows/trips/__init__.py"]
    tutorial = tmp_path / "tutorial.py"
    tutorial.write_text(trips, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "functions/workflows", str(path), str(tutorial)]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    places = re.findall(r"^(\S+?):(\d+): error", printed, re.MULTILINE)
    assert {Path(file).name for file, _ in places} == {path.name}, printed
    wrong = [step for step, (_, is_seen, _) in zip(_STEPS, _WRONG, strict=True) if is_seen]
    assert [lines[line - 1] for line in sorted({int(line) for _, line in places})] == [_MISSPELT, *wrong]


@pytest.mark.parametrize(("code", "text"), [(code, text) for code, _, text in _WRONG if text is not None])
def test_start_reports_a_wrong_definition_with_its_fix(code: str, text: str) -> None:
    """The text names file, workflow, step, option and fix."""
    source = f'{_NAMES}\nWorkflow("trips", payload=Trip, steps=[CARD, HOTEL, {code}])'
    place = "functions/workflows/trips/definition.py"
    with pytest.raises(DefinitionError) as error:
        exec(compile(source, f"/app/{place}", "exec"), {"__name__": "trips"})  # noqa: S102 - a definition of ours
    assert str(error.value).startswith(f'{place}: workflow "trips": step "fly": {text}')
