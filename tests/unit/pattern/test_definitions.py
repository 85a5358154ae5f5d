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
from tests.fakes.workflows import DIAMOND, LINE, TRIP, Approval, awaiting, step, timer, trip, workflow


def _refusal(*steps: Step) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(*steps, name="trips")
    return str(refusal.value)


def test_step_is_found_by_its_name() -> None:
    """A workflow knows its steps, and no others."""
    assert DIAMOND.step(StepName("left")).agent == "left"
    with pytest.raises(KeyError):
        DIAMOND.step(StepName("middle"))
    # Steps may be a list.
    steps: Any = [step("fly")]
    assert replace(DIAMOND, steps=steps).steps == (step("fly"),)


def test_unknown_need_is_named() -> None:
    """A need that no step fulfils is named with its step and workflow."""
    assert (
        _refusal(step("fly", "pack"))
        == "workflow 'trips': step 'fly' needs 'pack', which is not one of its steps"
    )
    # Circle is shown.
    text = _refusal(step("a", "c"), step("b", "a"), step("c", "b"), step("d"))
    assert text.startswith("workflow 'trips': its steps need each other in a circle: ")
    assert {"a", "b", "c"} == set(text.rpartition(": ")[2].split(" → "))
    # Step that needs itself is a circle.
    assert _refusal(step("a", "a")).endswith("in a circle: a → a")
    # Step defined twice is named.
    assert _refusal(step("a"), step("a")) == "workflow 'trips': step 'a' is defined twice"
    # Request for an undo that never comes is refused.
    assert _refusal(replace(step("fly"), undo_request=step("fly").request)) == (
        "workflow 'trips': step 'fly': it has undo_request, but no undo: add undo=True"
    )
    # Agent that is missing is asked for at its step.
    text = _refusal(replace(step("fly"), agent=""))
    assert text.startswith("workflow 'trips': step 'fly': agent '' must match")
    # Request is not left out.
    assert "request must be a function" in _refusal(replace(step("fly"), request=cast("Any", None)))


@pytest.mark.parametrize("count", [0, 91])
def test_number_of_steps_is_bounded(count: int) -> None:
    """A task must fit into one transaction."""
    assert _refusal(*(step(f"s{n}") for n in range(count))).endswith(f"{count} steps; 1 to 90 are possible")
    # As many steps as are possible are taken.
    assert len(workflow(*(step(f"s{n}") for n in range(90))).steps) == 90


@pytest.mark.parametrize("name", ["", "Fly", "9lives", "a_b", "a" * 33, "a|b", "fly\n"])
def test_step_name_is_checked(name: str) -> None:
    """Names become parts of keys and URLs, so few characters are allowed."""
    assert f": step name '{name}' must match" in _refusal(step(name))


@pytest.mark.parametrize(
    ("of", "name", "resource"), [("name", "No Good", "trips"), ("resource", "trips", "No Good")]
)
def test_workflow_and_resource_names_are_checked(of: str, name: str, resource: str) -> None:
    """They go by the rule of the step names."""
    with pytest.raises(DefinitionError, match=f": {of} 'No Good' must match"):
        replace(DIAMOND, name=name, resource=resource)


@pytest.mark.parametrize("limit", [0, -1.5, float("nan"), float("inf"), 365 * 86_400 + 1, True, "10"])
def test_complete_within_must_be_time_with_an_end(limit: Any) -> None:
    """A step without time can't complete, and one with endless time is never found lost."""
    text = _refusal(step("fly", complete_within=limit))
    assert text == (
        "workflow 'trips': step 'fly': complete_within must be more than 0 and at most 31536000 seconds,"
        f" not {limit!r}"
    )


@pytest.mark.parametrize("written", [{"pack"}, frozenset({"pack"}), ["pack"], ("pack",)], ids=repr)
def test_needs_may_be_any_collection_of_names(written: Any) -> None:
    """They are a set, however they were written."""
    fly = workflow(step("pack"), replace(step("fly"), needs=written)).step(StepName("fly"))
    assert fly.needs == frozenset({"pack"})
    assert hash(fly)


def test_needs_may_not_be_a_bare_text() -> None:
    """It would be taken for a set of letters."""
    assert _refusal(step("pack"), replace(step("fly"), needs=cast("Any", "pack"))) == (
        "workflow 'trips': step 'fly': needs must be a set of names: write {'pack'} instead of 'pack'"
    )


@pytest.mark.parametrize("written", [None, {}, {"pack": 1}, [1], [["pack"]]], ids=repr)
def test_needs_may_be_nothing_else(written: Any) -> None:
    """The developer sees what was written."""
    assert _refusal(replace(step("fly"), needs=written)) == (
        "workflow 'trips': step 'fly': needs must be a set of steps' names, such as {'payment'},"
        f" not {written!r}"
    )


@pytest.mark.parametrize(
    ("written", "found"),
    [
        (step("fly"), "Step"),
        (None, "NoneType"),
        ({step("fly")}, "set"),
        ([step("fly"), "pay"], "one with a str in it"),
    ],
)
def test_steps_are_a_list_of_steps(written: Any, found: str) -> None:
    """A lone one in its place is an easy slip."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, steps=written)
    assert str(refusal.value) == f"workflow 'diamond': steps must be a list of Step(…), not {found}"


@pytest.mark.parametrize("field", ["on_failure", "on_exhausted"])
def test_remedy_may_be_written_as_its_text(field: str) -> None:
    """Rules compare it with the enum's members, so it becomes one."""
    remedies: Any = {field: "compensate"}
    assert getattr(replace(DIAMOND, **remedies), field) is Remedy.COMPENSATE


@pytest.mark.parametrize("field", ["on_failure", "on_exhausted"])
@pytest.mark.parametrize("written", ["undo", "Compensate", None])
def test_unknown_remedy_is_refused_with_the_choices(field: str, written: Any) -> None:
    """Misspelt, it would mean one of them, unseen."""
    remedies: Any = {field: written}
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, **remedies)
    assert str(refusal.value) == (
        f"workflow 'diamond': {field} must be Remedy.COMPENSATE or Remedy.HOLD, not {written!r}"
    )


@pytest.mark.parametrize("field", ["undo", "idempotent"])
@pytest.mark.parametrize("written", ["no", "", 0, None])
def test_flag_is_true_or_false(field: str, written: Any) -> None:
    """Any text is true: what must not be repeated would be."""
    flags: Any = {field: written}
    assert _refusal(replace(step("fly"), **flags)) == (
        f"workflow 'trips': step 'fly': {field} must be True or False, not {written!r}"
    )


@pytest.mark.parametrize("field", ["request", "when", "undo_request"])
def test_function_of_a_step_can_be_called(field: str) -> None:
    """It would be found out by the first order."""
    functions: Any = {field: {"seat": "4A"}}
    assert _refusal(replace(step("fly", undo=True), **functions)) == (
        f"workflow 'trips': step 'fly': {field} must be a function of the payload and the results,"
        " not {'seat': '4A'}"
    )


async def _later(*_: object) -> Any:
    return False


def _bit_by_bit(*_: object) -> Any:
    yield False


class _Checks:
    async def __call__(self, _parcel: object, _results: object) -> Any:
        return False


@pytest.mark.parametrize("field", ["request", "when", "undo_request"])
@pytest.mark.parametrize("function", [_later, partial(_later), _bit_by_bit, _Checks()])
def test_function_of_a_step_is_not_asynchronous(field: str, function: Any) -> None:
    """What it gives is a promise: a condition would hold for every order, also for one that is refused."""
    functions: Any = {field: function}
    assert _refusal(replace(step("fly", undo=True), **functions)) == (
        f"workflow 'trips': step 'fly': {field} must be a function of the payload and the results"
        " that gives it at once: leave out its async, or its yield"
    )


@pytest.mark.parametrize("payload", [dict, dict[str, str], {}, None])
def test_payload_is_a_model(payload: Any) -> None:
    """It says what callers may send."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, payload=payload)
    assert str(refusal.value) == (
        f"workflow 'diamond': payload must be a pydantic model class, not {payload!r}"
    )


def test_answer_can_be_called() -> None:
    """It is called once only, when all is done."""
    with pytest.raises(DefinitionError, match="workflow 'diamond': answer must be a function of the payload"):
        replace(DIAMOND, answer=cast("Any", {"seat": "4A"}))


def test_way_is_read_as_remedies_are() -> None:
    """The same mistake in another field."""
    assert workflow(replace(step("fly"), via=cast("Any", "queue"))).steps[0].via is Way.QUEUE
    assert _refusal(replace(step("fly"), via=cast("Any", "bus"))) == (
        "workflow 'trips': step 'fly': via must be Way.ACTIVITY or Way.QUEUE or Way.EVENT or Way.TIMER"
        " or Way.WORKFLOW, not 'bus'"
    )


@pytest.mark.parametrize("resource", ["docs", "health", "openapi", "ops", "services"])
def test_resources_of_the_application_itself_are_refused(resource: str) -> None:
    """The host would send such an order elsewhere."""
    with pytest.raises(DefinitionError) as refusal:
        replace(DIAMOND, resource=resource)
    assert str(refusal.value) == (
        f"workflow 'diamond': resource '{resource}' must be renamed: the application itself has docs,"
        " health, openapi, ops, services"
    )


@pytest.mark.parametrize("field", ["id", "reply_to", "correlation_id"])
def test_payload_may_not_use_the_envelopes_fields(field: str) -> None:
    """The submission itself has fields of these names."""
    payload = type("Taken", (BaseModel,), {"__annotations__": {field: str}})
    with pytest.raises(DefinitionError, match=f"workflow 'trips': payload field '{field}' is taken"):
        Workflow(name="trips", resource="trips", payload=payload, steps=(step("fly"),))


@pytest.mark.parametrize(
    "alias", ["id", AliasPath("id", "text"), AliasChoices("number", "id"), AliasChoices(AliasPath("id", 0))]
)
def test_payload_may_not_be_called_by_the_envelopes_fields(alias: str | AliasPath | AliasChoices) -> None:
    """Callers know a field by its aliases."""
    payload = create_model("Called", number=(str, Field(validation_alias=alias)))
    with pytest.raises(DefinitionError, match="workflow 'trips': payload field 'id' is taken"):
        Workflow(name="trips", resource="trips", payload=payload, steps=(step("fly"),))


def _defined(**fields: Any) -> str:
    with pytest.raises(DefinitionError) as refusal:
        workflow(replace(awaiting("ok"), **fields))
    return str(refusal.value)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"agent": "ok"}, "a step by way event has no agent: leave it out"),
        ({"undo": True}, "a step by way event has no undo: leave it out"),
        ({"idempotent": False}, "a step by way event has no idempotent: leave it out"),
        ({"payload": None}, "payload must be a pydantic model class, not None"),
        ({"role": "boss"}, "role must be Submitter, Operator or a name such as Approver"),
        ({"role": "Boss of all"}, "not 'Boss of all'"),
        ({"role": "B" * 33}, "up to 31 letters, digits, dots and dashes"),
        ({"role": None}, "not None"),
        ({"role": "OPERATOR"}, "role must be written Operator, not 'OPERATOR'"),
        ({"on_expiry": "wait"}, "on_expiry must be Expiry.REFUSE or Expiry.HOLD, not 'wait'"),
        ({"on_expiry": Default({"approved": 7})}, "the default of its on_expiry does not fit (approved: "),
        ({"on_expiry": Default({"approved": "no"})}, "does not fit (approved: Input should be a valid bool"),
        (
            {"on_expiry": Default({"approved": object()})},
            "its on_expiry is no JSON (Unable to serialize",
        ),
        ({"on_expiry": Default({})}, "the default of its on_expiry does not fit (approved: Field required)"),
        ({"on_expiry": Expiry.HOLD, "on_failure": Remedy.CONTINUE}, "only a refused step has an on_failure"),
        ({"complete_within": 0}, "complete_within must be more than 0"),
        ({"via": Way.TIMER}, "until must be a function of the payload and the results, not None"),
        ({"via": Way.TIMER, "until": lambda *_: START}, "a step by way timer has no complete_within"),
        ({"via": Way.ACTIVITY, "request": lambda *_: {}}, "a step by way activity has no payload"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_wait_that_can_t_work_is_refused(fields: Any, text: str) -> None:
    """When it is defined, with the field and the fix."""
    assert text in _defined(**fields)


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
