"""Definitions that cannot work are rejected with the file, the workflow, the step, the option and the fix."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from typing import Any, assert_type

import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, Field, create_model

from functions.core.definition import definition_checks
from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import (
    BaseStep,
    EventStep,
    Json,
    QueueStep,
    Results,
    Retry,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import UnfitOrderError, Workflow, WorkflowRegistry
from functions.core.record import FailurePolicy, StepSpec, StepType
from functions.workflow import days, hours, minutes

_FILE = "test_definitions.py"
_INPUTS = "(the payload, the results)"


class Trip(BaseModel):
    """The payload of the tests."""

    travellers: list[str] = []
    starts_at: datetime = datetime(2026, 1, 1, tzinfo=UTC)


class Charge(BaseModel):
    """The result of a step, and the body of an event."""

    amount: int


def _request(_trip: Trip, _results: Results) -> Json:
    return {}


def _each(_trip: Trip, _results: Results, traveller: str) -> Json:
    return {"who": traveller}


def _refund(_trip: Trip, _results: Results, own: Charge | None) -> Json:
    return {"amount": own.amount if own else None}


CARD = Step("card", request=_request, result=Charge, complete_within=20, idempotent=False, undo=_refund)
SEATS = Step(
    "seats",
    needs=[CARD],
    for_each=lambda trip: trip.travellers,
    at_once=4,
    request=_each,
    result=Charge,
    undo=True,
)
HOTEL = QueueStep(
    "hotel", needs=["card"], request=_request, result=Charge, complete_within=minutes(10), agent="inn"
)
CAR = Step(
    "car",
    needs=[CARD],
    when=lambda _trip, results: results[CARD].amount > 1,
    request=_request,
    result=Charge,
    on_failure="continue",
)
APPROVAL = EventStep("approval", needs=[SEATS, HOTEL], event=Charge, role="Manager", complete_within=days(2))
DEPARTURE = TimerStep("departure", needs=[APPROVAL], until=lambda trip, _results: trip.starts_at)
INVOICE = WorkflowStep("invoice", workflow="invoices", request=_request, complete_within=hours(1))
INVOICES = Workflow("invoices", payload=Trip, steps=[Step("bill", request=_request)])
TRIPS = Workflow(
    "trips",
    payload=Trip,
    steps=[CARD, SEATS, HOTEL, CAR, APPROVAL, DEPARTURE, INVOICE],
    on_failure="compensate",
    cancel_within=days(1),
    complete_within=days(30),
    output=lambda _trip, results: {"amount": results[CARD].amount},
)


def test_snapshot_holds_all_options_of_the_steps() -> None:
    """Defaults fit most steps."""
    specs, needs = {spec.name: spec for spec in TRIPS.specs}, frozenset({"card"})
    card = StepSpec(name="card", agent="card", complete_within=20, idempotent=False, undo=True)
    seats = StepSpec(name="seats", agent="seats", needs=needs, undo=True, at_once=4)
    hotel = StepSpec(name="hotel", type=StepType.QUEUE, agent="inn", needs=needs, complete_within=600)
    assert [specs["card"], specs["seats"], specs["hotel"]] == [card, seats, hotel]
    assert specs["car"].may_fail
    assert specs["approval"] == StepSpec(
        name="approval",
        type=StepType.EVENT,
        needs=frozenset({"seats", "hotel"}),
        complete_within=172_800,
        on_failure=FailurePolicy.COMPENSATE,
        role="Manager",
    )
    assert (specs["departure"].type, specs["departure"].complete_within) == (StepType.TIMER, 0)
    assert (specs["invoice"].workflow, specs["invoice"].complete_within) == ("invoices", 3_600)
    assert (TRIPS.on_failure, TRIPS.on_exhausted) == (FailurePolicy.COMPENSATE, FailurePolicy.KEEP)
    assert (TRIPS.resource, TRIPS.noun, TRIPS.version) == ("trips", "order", 1)
    assert [minutes(2), hours(1), days(1)] == [120, 3_600, 86_400]


def test_results_have_the_type_of_their_step() -> None:
    """A step that may be skipped or fail has `None`, a for-each step a list."""
    results = Results({"card": Charge(amount=1), "seats": [None], "car": None, "x": {"a": 1}}, "output")
    assert_type(results[CARD], Charge)
    assert_type(results[SEATS], list[Charge | None])
    assert_type(results[CAR], Charge | None)
    assert results["x"] == {"a": 1}
    with pytest.raises(KeyError, match=r'output uses results\["hotel"\], which it does not need'):
        _ = results[HOTEL]
    assert repr(CARD) == 'Step("card")'


def test_order_has_a_spec_for_each_item() -> None:
    """Whether its Agent can look up effects is recorded with the order; a queue is named by its gate."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    order = TRIPS.new_order("t", "r", '{"travellers":["a","b"]}', now, finders=frozenset({"card", "inn"}))
    assert [spec.name for spec in order.specs][:4] == ["card", "seats.0", "seats.1", "hotel"]
    assert [spec.can_find for spec in order.specs][:4] == [True, False, False, False]
    found = TRIPS.new_order("t", "r", '{"travellers":[]}', now, finders=frozenset({"queue:inn"}))
    assert [spec.name for spec in found.specs if spec.can_find] == ["hotel"]
    assert order.by_name["seats.0"].item_digest != order.by_name["seats.1"].item_digest
    assert (order.cancel_within, order.complete_within) == (86_400, 2_592_000)
    many = Trip(travellers=[str(number) for number in range(91)])
    with pytest.raises(UnfitOrderError, match="It has 97 steps, items included; the limit is 90"):
        TRIPS.specs_of(many)


def _text(*steps: BaseStep[Any], **options: Any) -> str:
    with pytest.raises(DefinitionError) as error:
        Workflow("trips", payload=options.pop("payload", Trip), steps=options.pop("steps", steps), **options)
    return str(error.value)


_MAKERS: dict[str, Callable[..., BaseStep[Any]]] = {
    "step": partial(Step, "fly"),
    "event": partial(EventStep, "fly"),
    "child": partial(WorkflowStep, "fly"),
}
_USUAL: dict[str, dict[str, Any]] = {
    "step": {"request": _request},
    "event": {"event": Charge, "complete_within": 5},
    "child": {"request": _request, "workflow": "invoices"},
}


async def _async(*_: object) -> dict[str, object]:
    return {}


def _generator(*_: object) -> Any:
    yield {}


class _Callable:
    async def __call__(self, *_: object) -> Any:
        return {}


_NO_LIMITS = (0, -1.5, float("nan"), float("inf"), 365 * 86_400 + 1, True, "10")
#: Options and their error by kind of step.
_UNFIT: dict[str, list[tuple[dict[str, Any], str]]] = {
    "step": [
        *(
            ({"complete_within": each}, f"complete_within: {each!r} is no time limit: use")
            for each in _NO_LIMITS
        ),
        ({"idempotent": "no"}, "idempotent: 'no' is no flag: use True or False"),
        ({"idempotent": False, "complete_within": 5}, "result: required with idempotent=False: add it"),
        ({"request": 3}, f"request: 3 is no function: use one of {_INPUTS}"),
        ({"when": lambda: True}, "when: it takes other arguments"),
        *(
            ({"request": function}, "request: it must return its value: remove async and yield")
            for function in (_async, partial(_async), _generator, _Callable())
        ),
        ({"undo": 1}, "undo: 1 is no function: use one of (the payload, the results, its own result)"),
        ({"retry": 3}, "retry: 3 is no Retry: use Retry(first=…, factor=…, longest=…)"),
        ({"agent": "No"}, "agent: 'No' is no name: use one that matches [a-z][a-z0-9-]{0,31}"),
        ({"for_each": lambda: [1]}, "for_each: it takes other arguments"),
        ({"for_each": list, "request": _request}, "request: it takes other arguments"),
        ({"for_each": list, "at_once": 0}, "at_once: 0 is out of bounds: use an integer from 1 to 90"),
        ({"at_once": 2}, "at_once: the step has no for_each: add for_each, or remove at_once"),
        ({"event": Charge}, "event: Step has no such option: use agent, at_once, complete_within"),
    ],
    "child": [
        ({"undo": True}, "undo: WorkflowStep has no such option"),
    ],
    "event": [
        ({"when": lambda: True}, "when: it takes other arguments"),
        ({"event": None}, "event: None is no model"),
        ({"role": "boss"}, "role: 'boss' is no role: use Submitter, Operator or one like"),
        ({"role": "OPERATOR"}, "role: 'OPERATOR' differs from a built-in role by case: use 'Operator'"),
        ({"role": "Reader"}, "role: a Reader cannot act: use another role"),
        ({"role": "READER"}, "role: a Reader cannot act: use another role"),
        ({"on_timeout": "wait"}, "on_timeout: 'wait' is no policy"),
        (
            {"on_timeout": {"amount": object()}},
            "default.amount has a value of type object, which JSON cannot",
        ),
        ({"on_timeout": {"amount": 1, "x": "x" * 9_000}}, "bytes in UTF-16; the limit is 8192"),
        (
            {"on_timeout": "keep", "on_failure": "keep"},
            "on_failure: an EventStep fails only by its timeout: use on_timeout alone",
        ),
    ],
}


@pytest.mark.parametrize(
    ("kind", "options", "text"), [(kind, *row) for kind, rows in _UNFIT.items() for row in rows]
)
def test_option_that_cannot_work_is_rejected(kind: str, options: dict[str, Any], text: str) -> None:
    """The text begins with the place. More options are in `test_definition_types.py`."""
    error = _text(_MAKERS[kind](**{**_USUAL[kind], **options}))
    assert error.startswith(f'{_FILE}: workflow "trips": step "fly": ')
    assert text in error


def test_policies_of_an_event() -> None:
    """A default body is recorded with the order."""
    step = EventStep("ok", event=Charge, complete_within=5, on_timeout={"amount": 0})
    assert Workflow("trips", payload=Trip, steps=[step]).specs[0].default == '{"amount":0}'
    optional = EventStep("ok", event=Charge, complete_within=5, on_failure="continue")
    assert Workflow("trips", payload=Trip, steps=[optional]).specs[0].may_fail


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"steps": CARD}, "steps: it is no list of steps: use steps=[CARD, …]"),
        ({"steps": [CARD, "pay"]}, "steps: it is no list of steps"),
        ({"steps": []}, "steps: 0 steps: use 1 to 90"),
        ({"steps": [CARD, CARD]}, 'steps: "card" is defined twice: rename one of them'),
        ({"steps": [CAR]}, 'step "car": needs: "card" is not one of its steps: add it to steps'),
        ({"steps": [Step("Fly", request=_request)]}, "step \"Fly\": name: 'Fly' is no name"),
        ({"on_failure": "continue"}, 'on_failure: \'continue\' is no policy: use "compensate" or "keep"'),
        ({"on_exhausted": None}, "on_exhausted: None is no policy"),
        ({"cancel_within": 0}, "cancel_within: 0 is no time limit"),
        ({"complete_within": "1"}, "complete_within: '1' is no time limit"),
        ({"resource": "No"}, "resource: 'No' is no name"),
        (
            {"resource": "ops"},
            'resource: "ops" is reserved (docs, health, openapi, ops, services): use another',
        ),
        ({"version": 0}, "version: 0 is no version: use an integer from 1 on"),
        ({"payload": dict}, "payload: <class 'dict'> is no model"),
        ({"output": 3}, "output: 3 is no function"),
        ({"find_by": "email"}, "find_by: 'email' is no function: use one of (the payload)"),
        ({"find_by": lambda _trip, _results: []}, "find_by: it takes other arguments"),
        ({"steps": [HOTEL], "payload": Trip}, 'needs: "card" is not one of its steps'),
        (
            {"steps": [Step(name, needs=[need], request=_request) for name, need in ("ab", "ba")]},
            "needs: its steps need each other in a cycle (",
        ),
        (
            {"steps": [Step("a", request=_request)], "cancel_within": 5},
            "cancel_within: no step has an undo: add undo=True to one",
        ),
    ],
)
def test_workflow_that_cannot_work_is_rejected(options: dict[str, Any], text: str) -> None:
    """The text names the option and the fix."""
    assert text in _text(**{"steps": [CARD], **options})


def test_function_without_a_signature_is_accepted() -> None:
    """Some functions that are built in have none, and some code reads results by a number."""
    by_number: Any = lambda _trip, results: {"x": results[1]}  # noqa: E731 - it has no types
    steps = [Step("a", request=dict), Step("b", request=by_number)]
    assert Workflow("trips", payload=Trip, steps=steps).specs


@pytest.mark.parametrize(
    "function",
    [
        lambda _trip, results: {"x": results[CARD].amount},
        lambda _trip, results: {"x": results["card"]},
        partial(lambda _trip, results: {"x": results["card"]}),
    ],
)
def test_use_of_a_step_that_is_not_needed_is_found(function: Any) -> None:
    """It is found in the code of the function, before the first order."""
    other = Step("hotel", request=function)
    expected = 'step "hotel": request uses results["card"]: add needs=["card"]'
    if isinstance(function, partial):  # its code is hidden: it raises when it is called
        assert Workflow("trips", payload=Trip, steps=[CARD, other]).specs
    else:
        assert _text(CARD, other) == f'{_FILE}: workflow "trips": {expected}'


def test_use_of_an_enclosing_step_and_of_an_indirect_need() -> None:
    """Steps in variables of the enclosing function are found, too; other indices are ignored."""
    local = Step("local", request=_request)

    def own(_trip: Trip, results: Results) -> Json:
        name = "card"
        return {"x": results[local], "y": name[0], "z": results[name]}

    far = Step("far", request=own, needs=["middle"])
    middle = Step("middle", request=_request, needs=[local])
    assert Workflow("trips", payload=Trip, steps=[far, middle, local]).digest
    assert 'results["local"]' in _text(Step("far", request=own), local)


_ALIASES = ("id", AliasPath("id", "text"), AliasChoices("number", "id"), AliasChoices(AliasPath("id", 0)))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        *((name, {name: (str, "")}) for name in ("id", "reply_to", "correlation_id")),
        *(("id", {"number": (str, Field(validation_alias=alias))}) for alias in _ALIASES),
    ],
)
def test_payload_without_fields_of_the_submission(name: str, field: dict[str, Any]) -> None:
    """The submission has fields of these names; an alias counts as a name."""
    text = _text(Step("a", request=_request), payload=create_model("Taken", **field))
    assert f'payload: "{name}" is a field of the submission: rename the field' in text


def test_snapshot_that_no_row_can_hold_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest usual one fits."""
    steps = [Step(f"{'n' * 30}{number:02}", request=_request, needs=[]) for number in range(90)]
    assert Workflow("trips", payload=Trip, steps=steps).digest
    monkeypatch.setattr(definition_checks, "MOST_SNAPSHOT_BYTES", 10)
    assert "shorten names" in _text(CARD)


def test_digest_ignores_time_limits_only() -> None:
    """Settings can change the limits of steps under way."""

    def digest(**options: Any) -> str:
        return Workflow("w", payload=Trip, steps=[Step("a", request=_request, **options)]).digest

    assert digest() == digest(complete_within=99)
    assert digest() != digest(undo=True)


def test_file_of_the_definition_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path begins with the folder `functions`."""
    code = compile(
        'Workflow("No", payload=Trip, steps=[CARD])', "/x/functions/workflows/t/definition.py", "exec"
    )
    with pytest.raises(DefinitionError) as error:
        exec(code, {"Workflow": Workflow, "Trip": Trip, "CARD": CARD})  # noqa: S102 - a definition
    assert str(error.value).startswith('functions/workflows/t/definition.py: workflow "No": name: ')
    monkeypatch.setattr(inspect, "currentframe", lambda: None)
    assert Workflow("w", payload=Trip, steps=[CARD]).file == ""


def test_waits_between_attempts_grow_to_the_longest() -> None:
    """By the factor, for any number of attempts. The error of other bounds names the value and the bounds."""
    for options in ({"first": 0}, {"first": 20}, {"longest": 86_401}, {"factor": 0.5}, {"factor": 11}):
        with pytest.raises(ValueError, match=r"Retry: .*: use "):
            Retry(**options)
    retry = Retry(first=1, factor=3, longest=20)
    assert [retry.longest_wait(attempt) for attempt in (1, 2, 3, 4, 1_000)] == [1, 3, 9, 20, 20]
    [step] = Workflow("w", payload=Trip, steps=[Step("a", request=_request, retry=retry)]).steps.values()
    assert step.retry is retry


# Registry


def _workflow(name: str, *children: str, **options: Any) -> Workflow[Trip]:
    steps = [WorkflowStep(f"s{each}", workflow=each, request=_request) for each in children]
    return Workflow(name, payload=Trip, steps=[Step("a", request=_request), *steps], **options)


def test_workflows_are_found_by_name_and_version() -> None:
    """New orders take the newest version."""
    one, two = _workflow("w"), _workflow("w", version=2)
    registry = WorkflowRegistry([two, one, TRIPS, INVOICES])
    assert (registry.find("w"), registry.find("w", 1), registry.find("x")) == (two, one, None)
    assert (list(registry), registry.queue_agents) == ([two, one, TRIPS, INVOICES], frozenset({"inn"}))


@pytest.mark.parametrize(
    ("workflows", "text"),
    [
        ([_workflow("w"), _workflow("w")], "version: 1 is registered twice: use another version"),
        ([_workflow("w"), _workflow("w", version=2, resource="x")], 'its versions have "w" and "x": use one'),
        ([_workflow("w"), _workflow("x", resource="w")], 'workflow "w" has "w", too: use another one'),
        ([_workflow("w", "x")], 'step "sx": workflow: "x" is not registered: use one of w'),
        ([_workflow("w", "w")], 'step "sw": workflow: a cycle (w → w): remove the step'),
        (
            [_workflow("a", "b"), _workflow("b", "c"), _workflow("c", "d"), _workflow("d")],
            'step "sd": workflow: more than 3 levels (a → b → c → d): remove one',
        ),
    ],
)
def test_workflows_that_do_not_fit_together_are_rejected(workflows: list[Workflow[Trip]], text: str) -> None:
    """The text names the step or the option, and the fix."""
    with pytest.raises(DefinitionError) as error:
        WorkflowRegistry(workflows)
    assert text in str(error.value)


def test_settings_replace_time_limits_of_steps() -> None:
    """An unknown step is rejected, and so is a call that does not fit into a run after its start."""
    workflow = _workflow("w")
    limited = WorkflowRegistry([workflow, INVOICES], step_seconds={"w.a": 99}).find("w")
    assert limited is not None
    assert (limited.specs[0].complete_within, workflow.specs[0].complete_within) == (99, 30)
    with pytest.raises(DefinitionError, match=r"STEP_SECONDS: 'w.b' is no step with complete_within: use"):
        WorkflowRegistry([workflow], step_seconds={"w.b": 99})
    text = r"99 s does not fit into a run: use a QueueStep, or at most 98 s \(RUN_SECONDS=108\)"
    with pytest.raises(DefinitionError, match=text):
        WorkflowRegistry([limited], run_seconds=108)
    WorkflowRegistry([limited], run_seconds=109)


@pytest.mark.parametrize("items", [lambda _trip: {"a"}, lambda _trip: 1 / 0])
def test_order_whose_items_cannot_be_read_is_rejected(items: Any) -> None:
    """The text is for the caller."""
    workflow = Workflow("w", payload=Trip, steps=[Step("a", for_each=items, request=_each)])
    with pytest.raises(UnfitOrderError, match=r"The items of its step 'a' cannot be read\."):
        workflow.specs_of(Trip())
