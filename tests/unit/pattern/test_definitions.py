"""Definitions that cannot work are rejected when they are written, with the name of the wrong part."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, AliasPath, BaseModel, Field, create_model

from functions.pattern import definition
from functions.pattern.definition import Default, Registry, Step, Workflow
from functions.pattern.errors import DefinitionError
from functions.pattern.identity import StepName
from functions.pattern.retry import Retry
from functions.pattern.shape import MAX_SHAPE_BYTES, Shape, StepShape, read_shape
from functions.pattern.states import Expiry, FaultKind, Remedy, Way
from tests.fakes.clock import START
from tests.fakes.tasks import pending
from tests.fakes.workflows import (
    DIAMOND,
    LINE,
    TRIP,
    Approval,
    awaiting,
    each,
    nested,
    step,
    timer,
    trip,
    workflow,
)

_FLY = step("fly", undo=True)
_FUNCTION = "must be a function of the payload and the results"
_NO_MODELS: tuple[Any, ...] = (dict, dict[str, str], {}, None)
_OURS = ("docs", "health", "openapi", "ops", "services")
_FUNCTIONS = ("request", "when", "undo_request")


def _refusal(*steps: Step) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(*steps, name="trips")
    return str(refusal.value)


async def _later(*_: object) -> Any:
    return False


def _bit_by_bit(*_: object) -> Any:
    yield False


class _Checks:
    async def __call__(self, _parcel: object, _results: object) -> Any:
        return False


def test_step_is_found_by_its_name() -> None:
    """A workflow has its steps, and no others; they may be written as a list."""
    assert DIAMOND.step(StepName("left")).agent == "left"
    with pytest.raises(KeyError):
        DIAMOND.step(StepName("middle"))
    steps: Any = [step("fly")]
    assert replace(DIAMOND, steps=steps).steps == (step("fly"),)


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([step("fly", "pack")], "step 'fly' needs 'pack', which is not one of its steps"),
        ([step("a", "a")], "its steps need each other in a circle: a → a"),
        ([step("a"), step("a")], "step 'a' is defined twice"),
        *(
            ([step(f"s{n}") for n in range(count)], f"it has {count} steps; 1 to 90 are possible")
            for count in (0, 91)
        ),
    ],
)
def test_steps_that_cannot_work_together_are_refused(steps: list[Step], text: str) -> None:
    """The text names the workflow, the step and the need."""
    assert _refusal(*steps) == f"workflow 'trips': {text}"


def test_circle_is_shown() -> None:
    """Steps that wait for each other are shown in their order."""
    text = _refusal(step("a", "c"), step("b", "a"), step("c", "b"), step("d"))
    assert text.startswith("workflow 'trips': its steps need each other in a circle: ")
    assert {"a", "b", "c"} == set(text.rpartition(": ")[2].split(" → "))


def test_as_many_steps_as_are_possible_are_taken() -> None:
    """The bound itself is allowed."""
    assert len(workflow(*(step(f"s{n}") for n in range(90))).steps) == 90


@pytest.mark.parametrize("name", ["", "Fly", "9lives", "a_b", "a" * 33, "a|b", "fly\n"])
def test_step_name_is_checked(name: str) -> None:
    """Names become parts of keys and URLs, so few characters are allowed."""
    assert f": step name '{name}' must match" in _refusal(step(name))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        *(
            ({"complete_within": limit}, f"must be more than 0 and at most 31536000 seconds, not {limit!r}")
            for limit in (0, -1.5, float("nan"), float("inf"), 365 * 86_400 + 1, True, "10")
        ),
        ({"needs": "pack"}, "must be a set of names: write {'pack'} instead of 'pack'"),
        *(
            ({"needs": needs}, f"must be a set of steps' names, such as {{'payment'}}, not {needs!r}")
            for needs in (None, {}, {"pack": 1}, [1], [["pack"]])
        ),
        *(
            ({flag: value}, f"must be True or False, not {value!r}")
            for flag in ("undo", "idempotent")
            for value in ("no", "", 0, None)
        ),
        *(({name: {"seat": "4A"}}, f"{_FUNCTION}, not {{'seat': '4A'}}") for name in _FUNCTIONS),
        *(
            (
                {name: function},
                f"{_FUNCTION} that gives it at once: leave out its async, or its yield",
            )
            for name in _FUNCTIONS
            for function in (_later, partial(_later), _bit_by_bit, _Checks())
        ),
        ({"request": None}, f"{_FUNCTION}, not None"),
        (
            {"via": "bus"},
            "must be Way.ACTIVITY or Way.QUEUE or Way.EVENT or Way.TIMER or Way.WORKFLOW, not 'bus'",
        ),
    ],
)
def test_step_that_cannot_work_is_refused(fields: dict[str, Any], text: str) -> None:
    """The text names the workflow, the step, the field and its value."""
    [field] = fields
    assert _refusal(step("pack"), replace(_FLY, **fields)) == f"workflow 'trips': step 'fly': {field} {text}"


def test_step_lacks_its_agent_or_its_undo() -> None:
    """An empty name alone would not say what of; an `undo_request` without `undo` is forgotten."""
    text = _refusal(replace(step("fly"), agent=""))
    assert text.startswith("workflow 'trips': step 'fly': agent '' must match")
    assert _refusal(replace(step("fly"), undo_request=step("fly").request)) == (
        "workflow 'trips': step 'fly': it has undo_request, but no undo: add undo=True"
    )


@pytest.mark.parametrize("written", [{"pack"}, frozenset({"pack"}), ["pack"], ("pack",)], ids=repr)
def test_needs_may_be_any_collection_of_names(written: Any) -> None:
    """They are a set, however they were written."""
    fly = workflow(step("pack"), replace(step("fly"), needs=written)).step(StepName("fly"))
    assert fly.needs == frozenset({"pack"})
    assert hash(fly)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"steps": step("fly")}, "steps must be a list of Step(…), not Step"),
        ({"steps": None}, "steps must be a list of Step(…), not NoneType"),
        ({"steps": {step("fly")}}, "steps must be a list of Step(…), not set"),
        ({"steps": [step("fly"), "pay"]}, "steps must be a list of Step(…), not one with a str in it"),
        *(
            ({field: remedy}, f"{field} must be Remedy.COMPENSATE or Remedy.HOLD, not {remedy!r}")
            for field in ("on_failure", "on_exhausted")
            for remedy in ("undo", "Compensate", None, Remedy.CONTINUE)
        ),
        *(
            ({"payload": payload}, f"payload must be a pydantic model class, not {payload!r}")
            for payload in _NO_MODELS
        ),
        *(
            (
                {"resource": resource},
                f"resource '{resource}' must be renamed: the application itself has {', '.join(_OURS)}",
            )
            for resource in _OURS
        ),
    ],
)
def test_workflow_that_cannot_work_is_refused(fields: dict[str, Any], text: str) -> None:
    """The text names the workflow, the field and its value."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, **fields)
    assert str(refusal.value) == f"workflow 'diamond': {text}"


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"name": "No Good"}, "workflow 'No Good': name 'No Good' must match"),
        ({"resource": "No Good"}, "workflow 'diamond': resource 'No Good' must match"),
        ({"answer": {"seat": "4A"}}, "workflow 'diamond': answer must be a function of the payload"),
    ],
)
def test_names_and_answer_of_a_workflow_are_checked(fields: dict[str, Any], text: str) -> None:
    """Names go by the rule of the step names; the answer is called once only, when all is done."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, **fields)
    assert str(refusal.value).startswith(text)


@pytest.mark.parametrize("field", ["on_failure", "on_exhausted"])
def test_remedy_and_way_may_be_written_as_texts(field: str) -> None:
    """Rules compare them with members of the enum, so they become these."""
    remedies: Any = {field: "compensate"}
    assert getattr(replace(DIAMOND, **remedies), field) is Remedy.COMPENSATE
    assert workflow(replace(step("fly"), via=cast("Any", "queue"))).steps[0].via is Way.QUEUE


@pytest.mark.parametrize(
    ("name", "model"),
    [
        *(
            (field, type("Taken", (BaseModel,), {"__annotations__": {field: str}}))
            for field in ("id", "reply_to", "correlation_id")
        ),
        *(
            ("id", create_model("Called", number=(str, Field(validation_alias=alias))))
            for alias in (
                "id",
                AliasPath("id", "text"),
                AliasChoices("number", "id"),
                AliasChoices(AliasPath("id", 0)),
            )
        ),
    ],
)
def test_payload_may_not_use_the_envelopes_fields(name: str, model: type[BaseModel]) -> None:
    """The submission itself has fields of these names; callers know a field by its aliases."""
    with pytest.raises(DefinitionError, match=f"workflow 'trips': payload field '{name}' is taken"):
        Workflow(name="trips", resource="trips", payload=model, steps=(step("fly"),))


def _way(way: str, field: str) -> str:
    return f"a step by way {way} has no {field}: leave it out"


_WAITS, _NESTED, _EACH = awaiting("ok"), nested("car"), each("send", undo=True)


@pytest.mark.parametrize(
    ("given", "fields", "text"),
    [
        (_WAITS, {"agent": "ok"}, _way("event", "agent")),
        (_WAITS, {"undo": True}, _way("event", "undo")),
        (_WAITS, {"idempotent": False}, _way("event", "idempotent")),
        (_WAITS, {"payload": None}, "payload must be a pydantic model class, not None"),
        (_WAITS, {"role": "boss"}, "role must be Submitter, Operator or a name such as Approver"),
        (_WAITS, {"role": "Boss of all"}, "not 'Boss of all'"),
        (_WAITS, {"role": "B" * 33}, "up to 31 letters, digits, dots and dashes"),
        (_WAITS, {"role": None}, "not None"),
        (_WAITS, {"role": "OPERATOR"}, "role must be written Operator, not 'OPERATOR'"),
        (_WAITS, {"role": "reader"}, "role must be Submitter, Operator"),
        (_WAITS, {"role": "Reader"}, "role must not be Reader, who cannot act"),
        (_WAITS, {"on_expiry": "wait"}, "on_expiry must be Expiry.REFUSE or Expiry.HOLD, not 'wait'"),
        (
            _WAITS,
            {"on_expiry": Default({"approved": 7})},
            "default of its on_expiry does not fit (approved: ",
        ),
        (_WAITS, {"on_expiry": Default({"approved": "no"})}, "fit (approved: Input should be a valid bool"),
        (_WAITS, {"on_expiry": Default({"approved": object()})}, "on_expiry is no JSON (Unable to serialize"),
        (_WAITS, {"on_expiry": Default({})}, "of its on_expiry does not fit (approved: Field required)"),
        (_WAITS, {"on_expiry": Expiry.HOLD, "on_failure": Remedy.CONTINUE}, "only a refused step has an"),
        (_WAITS, {"complete_within": 0}, "complete_within must be more than 0"),
        (_WAITS, {"via": Way.TIMER}, "until must be a function of the payload and the results, not None"),
        (_WAITS, {"via": Way.TIMER, "until": lambda *_: START}, "a step by way timer has no complete_within"),
        (_WAITS, {"via": Way.ACTIVITY, "request": lambda *_: {}}, "a step by way activity has no payload"),
        (_NESTED, {"agent": "car"}, _way("workflow", "agent")),
        (_NESTED, {"undo": True}, _way("workflow", "undo")),
        (_NESTED, {"undo_request": lambda *_: {}}, _way("workflow", "undo_request")),
        (_NESTED, {"idempotent": False}, _way("workflow", "idempotent")),
        (_NESTED, {"role": "Submitter"}, _way("workflow", "role")),
        (_NESTED, {"workflow": None}, "workflow must be the name of a workflow, not None"),
        (_NESTED, {"request": None}, "request must be a function of the payload and the results, not None"),
        (_NESTED, {"complete_within": 0}, "complete_within must be more than 0"),
        (step("car"), {"workflow": "line"}, _way("activity", "workflow")),
        (timer("car"), {"workflow": "line"}, _way("timer", "workflow")),
        (timer("nap"), {"for_each": lambda parcel: [parcel.weight]}, _way("timer", "for_each")),
        (_EACH, {"for_each": 3}, "for_each must be a function of the payload, not 3"),
        (_EACH, {"for_each": lambda: [1]}, "for_each must be a function of the payload (too many"),
        (_EACH, {"request": lambda *, item: item}, f"request {_FUNCTION} and"),
        (_EACH, {"when": lambda _parcel: True}, f"when {_FUNCTION} and the"),
        (_EACH, {"undo_request": lambda: {"n": 1}}, f"undo_request {_FUNCTION}"),
        (_EACH, {"at_once": 0}, "at_once must be a whole number from 1 to 90, not 0"),
        (_EACH, {"at_once": 91}, "at_once must be a whole number from 1 to 90, not 91"),
        (_EACH, {"at_once": True}, "at_once must be a whole number from 1 to 90, not True"),
        (
            _EACH,
            {"for_each": None, "request": lambda *_: {}, "at_once": 2},
            "it has at_once, but no for_each",
        ),
        (step("send"), {"request": lambda _parcel, _results, item: {"n": item}}, f"request {_FUNCTION} "),
        (
            step("fly"),
            {"on_failure": "ignore"},
            "must be Remedy.COMPENSATE or Remedy.HOLD or Remedy.CONTINUE",
        ),
        (step("fly"), {"retry": 3}, "retry must be a Retry(…), not 3"),
    ],
)
def test_step_of_its_way_that_cannot_work_is_refused(given: Step, fields: dict[str, Any], text: str) -> None:
    """When it is defined, with the field and the fix."""
    assert text in _refusal(replace(given, **fields))


def _defined(**fields: Any) -> str:
    return _refusal(replace(awaiting("ok"), **fields))


def test_default_is_bounded() -> None:
    """It is a part of each task's shape."""

    class Note(Approval):
        text: str

    large = Default({"approved": True, "text": "x" * 4096})
    assert "bytes; 4096 fit" in _defined(payload=Note, on_expiry=large)
    # Wait asks nothing of anybody.
    (waits,) = workflow(awaiting("ok")).steps
    assert waits.request(Approval(approved=True), {}) == {}


def test_workflows_are_found_by_name() -> None:
    """Each under its own, in their order; others are not there."""
    registry = Registry((DIAMOND, LINE), {})
    assert [each.name for each in registry] == ["diamond", "line"]
    assert registry.find("line") == LINE
    assert registry.find("circle") is None
    # Agents behind queues are named.
    fly, pay = step("fly"), step("pay", via=Way.QUEUE)
    registry = Registry((workflow(fly, pay), workflow(pay, name="bills", resource="bills")), {})
    assert registry.queued_agents == {"pay"}


def test_versions_of_a_workflow_are_told_apart() -> None:
    """New submissions take the newest, whatever the order in which they are registered."""
    newest = replace(LINE, version=3)
    registry = Registry((LINE, newest, DIAMOND, replace(LINE, version=2)), {})
    assert [(each.name, each.version) for each in registry.newest] == [("line", 3), ("diamond", 1)]
    assert registry.find("line") == newest
    assert registry.find("line", 1) == LINE
    assert registry.find("line", 4) is None
    assert len(list(registry)) == 4
    # Version is registered once.
    with pytest.raises(DefinitionError, match="version 1 of workflow 'line' is there twice"):
        Registry((LINE, replace(LINE, steps=LINE.steps[:1])), {})


@pytest.mark.parametrize("version", [0, "2", 1.5, True])
def test_version_that_is_no_number_is_refused(version: Any) -> None:
    """It becomes a part of keys."""
    with pytest.raises(DefinitionError, match="version must be a whole number from 1 on"):
        replace(LINE, version=version)


def test_limit_of_one_step_can_be_set() -> None:
    """The others keep theirs."""
    line = Registry((DIAMOND, LINE), {"line.send": 1.5}).find("line")
    assert line is not None
    assert line.step(StepName("send")).complete_within == 1.5
    assert line.step(StepName("pick")).complete_within == 10
    # Timer has no limit to set.
    napping = workflow(step("pick"), timer("nap"), timer("rest"), name="nap")
    with pytest.raises(DefinitionError, match=r"^STEP_SECONDS names 'nap.rest', .* those are nap.pick$"):
        Registry((napping,), {"nap.rest": 1})
    # Limit of an unknown step is refused.
    with pytest.raises(DefinitionError) as refusal:
        Registry((LINE,), {"line.sent": 1})
    assert str(refusal.value) == (
        "STEP_SECONDS names 'line.sent', which is no step with a complete_within;"
        " those are line.pick, line.send"
    )


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (replace(LINE, name="diamond"), "two workflows have the name 'diamond' (resources parcels, lines)"),
        (replace(LINE, resource="parcels"), "workflows 'diamond' and 'line' have the resource 'parcels'"),
    ],
    ids=["name", "resource"],
)
def test_names_and_resources_belong_to_one_workflow(other: Workflow, text: str) -> None:
    """The developer sees which two share which."""
    with pytest.raises(DefinitionError) as refusal:
        Registry((DIAMOND, other), {})
    assert str(refusal.value) == f"{text}: rename one of them"


_LONG = "n" * 30


@st.composite
def _shapes(draw: st.DrawFn) -> Shape:
    faults = st.sampled_from(FaultKind)
    names = [StepName(f"s{number}") for number in range(draw(st.integers(1, 6)))]
    steps = tuple(
        StepShape(
            name=name,
            agent=draw(st.sampled_from(["one", "other"])),
            via=draw(st.sampled_from(Way)),
            needs=frozenset(draw(st.sets(st.sampled_from(names)))),
            undo=draw(st.booleans()),
            idempotent=draw(st.booleans()),
            complete_within=draw(st.floats(0.001, 1e6)),
            on_failure=draw(st.none() | st.sampled_from(Remedy)),
            retry=draw(st.none() | st.builds(Retry, attempts=st.integers(1, 9), on=st.sets(faults))),
            role=draw(st.none() | st.just("Operator")),
            on_expiry=draw(st.sampled_from(Expiry)),
            default=draw(st.none() | st.just('{"approved":true}')),
            at_once=draw(st.none() | st.integers(1, 90)),
        )
        for name in names
    )
    remedies = st.sampled_from(Remedy)
    return Shape(steps=steps, on_failure=draw(remedies), on_exhausted=draw(remedies))


@given(_shapes())
def test_shape_comes_back_from_what_is_written(shape: Shape) -> None:
    """Every step, with whatever it needs, also one that comes after it."""
    assert read_shape(shape.written) == shape


def test_shape_is_written_compactly() -> None:
    """A step that is needed is a number: it is read by people as well."""
    assert LINE.shape.written == (
        b'{"on_failure":"hold","on_exhausted":"hold","steps":['
        b'{"name":"pick","agent":"pick","via":"activity","needs":[],"undo":false,"idempotent":true,'
        b'"complete_within":10},'
        b'{"name":"send","agent":"send","via":"activity","needs":[0],"undo":false,"idempotent":true,'
        b'"complete_within":10}]}'
    )
    # Widest workflow fits.
    names = [f"{_LONG}{number:02d}" for number in range(90)]
    widest = workflow(*(step(name, *names[:number]) for number, name in enumerate(names)))
    assert len(widest.shape.written) < MAX_SHAPE_BYTES
    assert read_shape(widest.shape.written) == widest.shape


@pytest.mark.parametrize(
    "damaged",
    [b"", b"[]", b'{"steps":[{}]}', LINE.shape.written.replace(b"[0]", b"[7]")],
    ids=["empty", "list", "step without a name", "need without a step"],
)
def test_damaged_shape_is_refused(damaged: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match=r"can't be read|Expecting"):
        read_shape(damaged)


def test_shape_that_no_row_can_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the workflow is defined, not when its first task is admitted."""
    monkeypatch.setattr(definition, "MAX_SHAPE_BYTES", len(LINE.shape.written))
    workflow(*LINE.steps)
    with pytest.raises(DefinitionError, match="what is recorded of its steps has more than"):
        workflow(*DIAMOND.steps)


def test_task_is_made_of_its_shape() -> None:
    """Each step has its part of the order's."""
    record = pending(TRIP)
    assert record.order.shape == TRIP.shape
    assert [each.shape for each in record.steps] == list(TRIP.shape.steps)
    assert [each.name for each in record.steps] == ["flight", "hotel", "car"]
    # Remedies are a part of it.
    assert trip(remedy=Remedy.HOLD).shape != trip(remedy=Remedy.COMPENSATE).shape


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"attempts": 1_001},
        {"attempts": 2.5},
        {"first": 0},
        {"first": 20},
        {"most": 86_401},
        {"factor": 0.5},
        {"factor": 11},
        {"on": {"bad luck"}},
    ],
    ids=str,
)
def test_retry_without_bounds_is_refused(given: dict[str, Any]) -> None:
    """Where it is written down."""
    with pytest.raises(ValueError, match=r"must be|not a valid FaultKind"):
        Retry(**given)


def test_waits_grow_up_to_the_longest() -> None:
    """By the factor, however many attempts there are."""
    retry = Retry(first=1, factor=3, most=20)
    assert [retry.longest_wait(attempt) for attempt in (1, 2, 3, 4, 1_000)] == [1, 3, 9, 20, 20]
    # Only named faults are worth another attempt.
    retry = Retry(on=frozenset({FaultKind.BUSY}))
    assert retry.is_worth_it(FaultKind.BUSY)
    assert retry.is_worth_it(None)
    assert not retry.is_worth_it(FaultKind.SERVER_ERROR)
