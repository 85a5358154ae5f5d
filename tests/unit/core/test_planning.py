"""A run plans the starts of ready steps; functions of a definition may raise or return anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import make_dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel, SecretStr, create_model

from functions.core.definition.defined_step import DefinedStep, items_of
from functions.core.definition.step_definition import (
    BaseStep,
    EventStep,
    QueueStep,
    Results,
    Step,
    TimerStep,
    WorkflowStep,
)
from functions.core.definition.workflow_definition import Workflow, WorkflowRegistry
from functions.core.derive import ProcessState, WaitingFor, derive, undo_order
from functions.core.gate_rules import Circuit, Gate
from functions.core.json_values import UnfitValueError, item_digest
from functions.core.plan import RunLimits, check_deployed, checked_result, output_of, plan
from functions.core.record import Direction, NotDeployedError, Operation, OperationState, TaskRecord
from functions.core.rules import admit, fold
from functions.core.task_events import (
    Event,
    EventReceived,
    GateReleased,
    OutcomeKind,
    ResultRejected,
    StepBroken,
    StepDeferred,
    StepEnded,
    StepSkipped,
    StepStarted,
    Suspended,
)
from functions.scheduler.run import with_valid_result
from tests.unit.core.builders import DUE, NOW, SETTINGS, after, at, cancel, end, new, payment, run, start


class Parcel(BaseModel):
    """The payload of the tests."""

    weight: int = 1
    labels: list[Any] = []


class Label(BaseModel):
    """The result of a step."""

    number: int


class Heavy(BaseModel):
    """Another payload."""

    tons: int


def _request(parcel: Parcel, _results: Results) -> dict[str, object]:
    return {"weight": parcel.weight}


def _of_item(_parcel: Parcel, _results: Results, item: object) -> dict[str, object]:
    return {"item": item}


def _labels(parcel: Parcel) -> list[Any]:
    return parcel.labels


_CHILD = Workflow("child", payload=Parcel, steps=[Step("a", request=_request)])


def _registry(*steps: BaseStep[Any], **options: Any) -> WorkflowRegistry:
    workflow = Workflow("w", **{"payload": Parcel, "steps": list(steps), **options})
    return WorkflowRegistry([workflow, _CHILD])


def _task(registry: WorkflowRegistry, payload: str = '{"weight":7}') -> TaskRecord:
    workflow = registry.find("w")
    assert workflow is not None
    return admit(workflow.new_order("t", "r", payload, NOW), NOW, SETTINGS)


def _limits(record: TaskRecord, *, room: int = 9, seconds: float = 240, gates: Any = None) -> RunLimits:
    ids = iter(f"start{number}" for number in range(99))
    return RunLimits(
        epoch=record.epoch,
        run=record.run,
        room=room,
        ends_at=at(seconds),
        new_id=lambda: next(ids),
        gate=(gates or {}).get,
    )


def _plan(record: TaskRecord, registry: WorkflowRegistry, **options: Any) -> list[Event]:
    return plan(record, _limits(record, **options), registry, at(1))


def _run(record: TaskRecord, registry: WorkflowRegistry) -> TaskRecord:
    """Apply the plan of a run once."""
    return fold(record, None, lambda r, now: plan(r, _limits(r), registry, now), at(1), SETTINGS).record


def _done(record: TaskRecord, registry: WorkflowRegistry, step: str, result: str) -> TaskRecord:
    record = _run(record, registry)
    return after(record, end(record, step, result=result))


def test_start_carries_the_request_and_the_deadline() -> None:
    """The request is compact JSON."""
    registry = _registry(Step("a", request=_request, complete_within=20))
    started = StepStarted(
        epoch=1, run=1, step="a", start_id="start0", complete_by=at(21), request='{"weight":7}'
    )
    assert _plan(_task(registry), registry) == [started]
    assert plan(_task(registry), replace(_limits(_task(registry)), epoch=2), registry, NOW) == []


def test_run_starts_as_many_calls_as_it_has_room_for() -> None:
    """Its first calls may be longer than the run, and end with it; a request to a queue takes no room."""
    steps = [Step("a", request=_request), Step("b", request=_request), QueueStep("c", request=_request)]
    registry = _registry(*steps)
    record = _task(registry)
    planned = _plan(record, registry, room=1)
    assert [event.step for event in planned if isinstance(event, StepStarted)] == ["a", "c"]
    late = replace(_limits(record, seconds=30), has_begun=True)
    assert len(plan(record, late, registry, at(1))) == 1
    first = _plan(record, registry, seconds=30)
    assert [each.complete_by for each in first if isinstance(each, StepStarted)] == [at(30), at(30), at(31)]


def test_step_behind_a_closed_gate_is_deferred() -> None:
    """A released step passes a half-open gate."""
    registry = _registry(Step("a", request=_request), QueueStep("b", request=_request))
    record = _task(registry)
    half_open = Gate(name="a", circuit=Circuit.HALF_OPEN)
    gates = {"a": half_open, "queue:b": replace(half_open, name="queue:b", circuit=Circuit.OPEN)}
    assert _plan(record, registry, gates=gates) == [StepDeferred(epoch=1, step=name) for name in "ab"]
    released = record.with_operation("a", Operation(is_released=True))
    assert isinstance(_plan(released, registry, gates=gates)[0], StepStarted)


def test_condition_skips_a_step() -> None:
    """It is judged before the first start only."""
    registry = _registry(Step("a", request=_request, when=lambda parcel, _: parcel.weight > 9))
    record = _task(registry)
    assert _plan(record, registry) == [StepSkipped(epoch=1, step="a")]
    again = record.with_operation("a", Operation(request='{"sent":1}'))
    [started] = _plan(again, registry)
    assert isinstance(started, StepStarted)
    assert started.request == '{"sent":1}'


def test_results_of_needed_steps_are_models() -> None:
    """A for-each step has a list; a step without a model has the JSON value; a timer has nothing."""
    seen: list[object] = []

    def read(_parcel: Parcel, results: Results) -> dict[str, object]:
        seen.extend(results[name] for name in ("a", "b", "c", "d"))
        return {}

    registry = _registry(
        Step("a", request=_request, result=Label),
        Step("b", request=_request),
        Step("c", for_each=_labels, request=_of_item),
        TimerStep("d", until=lambda _parcel, _results: NOW),
        Step("e", needs=["a", "b", "c", "d"], request=read),
    )
    record = _run(_task(registry, '{"labels":[4,5]}'), registry)
    assert record.do("c.1").request == '{"item":5}'
    for name in ("a", "b", "c.0", "c.1"):
        record = after(record, end(record, name, result='{"number":3}'))
    _run(record, registry)
    number = {"number": 3}
    assert seen == [Label(number=3), number, [number, number], None]


def test_need_on_a_step_without_items_is_a_need_on_its_needs() -> None:
    """It bounds starts, results and undos, also through two such steps, in any order of the steps."""
    registry = _registry(
        Step("e", needs=["c"], request=lambda _, results: {"n": results["a"].number}, undo=True),
        Step("c", needs=["b"], for_each=_labels, request=_of_item),
        Step("a", request=_request, result=Label, undo=True),
        Step("b", needs=["a"], for_each=_labels, request=_of_item),
    )
    record = _run(_task(registry), registry)
    assert list(record.steps) == ["a"]
    record = _run(after(record, end(record, "a", result='{"number":3}')), registry)
    assert record.do("e").request == '{"n":3}'
    record = after(record, end(record, "e"), cancel())
    assert undo_order(record) == ["e", "a"]
    assert undo_order(run(record, "e", OutcomeKind.REFUSED)) == []


def test_task_whose_version_is_not_deployed_is_suspended() -> None:
    """So is a task of other steps, another payload, other items, or without its child workflow."""
    each = Step("a", for_each=_labels, request=_of_item)
    record = _task(_registry(each), '{"labels":[1,2]}')
    fewer = Step("a", for_each=lambda parcel: parcel.labels[:1], request=_of_item)
    other = Step("a", for_each=lambda _: [3, 3], request=_of_item)
    none = Step("a", for_each=lambda _: [1 // 0], request=_of_item)
    for registry, reason in (
        (WorkflowRegistry([_CHILD]), "version 1 of workflow w is not deployed"),
        (_registry(Step("a", request=_request)), "is deployed with other steps than it was submitted with"),
        (_registry(fewer), "is deployed with other items of step a"),
        (_registry(other), "is deployed with other items of step a"),
        (_registry(none), "is deployed with other items of step a"),
        (_registry(each, payload=Heavy), "is deployed with another payload: Heavy rejects it: tons: Field"),
    ):
        events = _plan(record, registry)
        suspended = [event for event in events if isinstance(event, Suspended)]
        assert reason in suspended[0].reason
        suspended_task = _run(record, registry)
        assert derive(suspended_task).waiting_for is WaitingFor.SUSPENDED
        with pytest.raises(NotDeployedError, match=reason):  # the sweep does not resume it
            check_deployed(suspended_task, registry)
        check_deployed(suspended_task, _registry(each))
    second = replace(payment(), name="b")
    record = new(payment(can_find=True), second)  # so is one that looks up an outcome, unless it ends
    record = after(record, start(record, "pay"), start(record, "b", by=99))
    for unknown, kind in ((record, Suspended), (after(record, cancel()), StepStarted)):
        planned = _plan(after(unknown, DUE, seconds=60), WorkflowRegistry([_CHILD]))
        assert isinstance(planned[0], kind)


def test_items_of_recorded_requests_and_of_undos_without_a_function_need_no_definition() -> None:
    """Such a task is resumed although the definition has other items."""
    each = Step("a", for_each=_labels, request=_of_item, undo=True)
    other = Step("a", for_each=lambda _: [3], request=_of_item, undo=True)
    record = _run(_task(_registry(each), '{"labels":[1]}'), _registry(each))
    failed = after(record, end(record, "a.0", OutcomeKind.NOT_BEGUN))
    released = after(failed, GateReleased(gate="a", most=1))
    check_deployed(released, _registry(other))
    check_deployed(_run(after(record, cancel()), _registry(each)), _registry(other))
    undo = Step("a", for_each=lambda _: [3], request=_of_item, undo=lambda *_: {})
    with pytest.raises(NotDeployedError, match="other items"):
        check_deployed(after(record, cancel()), _registry(undo))


def test_payload_of_a_child_task_is_checked_before_its_start() -> None:
    """Its workflow may be missing, or reject the request."""
    step = WorkflowStep("a", workflow="child", request=_request)
    record = _task(_registry(step))
    [started] = _plan(record, _registry(step))
    assert isinstance(started, StepStarted)
    assert started.request == '{"weight":7}'
    bad = _registry(WorkflowStep("a", workflow="child", request=lambda *_: {"weight": "x"}))
    [broken] = _plan(_task(bad), bad)
    assert isinstance(broken, StepBroken)
    assert broken.error.startswith("Parcel rejects it: weight: ")
    [suspended] = _plan(record, _without_child(step))
    assert suspended == Suspended(reason="workflow child is not deployed", epoch=1)
    with pytest.raises(NotDeployedError, match="child is not deployed"):
        check_deployed(record, _without_child(step))
    check_deployed(record, _registry(step))


def test_only_an_older_version_may_request_an_older_child() -> None:
    """A version of the child with a stricter model is deployed beside the old one."""
    stricter = Workflow(
        "child",
        payload=create_model("Weighed", scale=(int, ...)),
        steps=[Step("a", request=_request)],
        version=2,
    )
    step = WorkflowStep("a", workflow="child", request=_request)
    one, two = (Workflow("w", payload=Parcel, steps=[step], version=version) for version in (1, 2))
    record = _task(WorkflowRegistry([one, _CHILD]))
    [started] = _plan(record, WorkflowRegistry([one, two, _CHILD, stricter]))
    assert isinstance(started, StepStarted)
    [broken] = _plan(record, WorkflowRegistry([one, _CHILD, stricter]))
    assert isinstance(broken, StepBroken)


def _without_child(step: BaseStep[Any]) -> WorkflowRegistry:
    registry = _registry(step)
    registry._versions = {key: each for key, each in registry._versions.items() if key[0] != "child"}
    registry._newest = {}
    return registry


class _HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def _raise(error: Exception) -> Any:
    raise error


_CYCLE: dict[str, object] = {}
_CYCLE["self"] = _CYCLE


@pytest.mark.parametrize(
    ("request_function", "error"),
    [
        (lambda _p, results: {"x": results["z".lower()]}, "uses results["),
        (lambda *_: _raise(ValueError("no\nprice")), "ValueError: no price"),
        (lambda *_: _raise(_HostileError()), "_HostileError: (its text raises RuntimeError)"),
        (lambda *_: _raise(ValueError("é" * 2_000)), "…"),
        (lambda *_: [], "the request is of type list: return a dict"),
        (lambda *_: {1: 2}, "request has a name of type int: use str"),
        (
            lambda *_: {"a": [float("nan")]},
            "request.a has a number that is no finite double: use a smaller number or a text",
        ),
        (lambda *_: {"a": 10**400}, "request.a has a number that is no finite double"),
        (lambda *_: {"a": object()}, "request.a has a value of type object, which JSON cannot hold"),
        (lambda *_: {"a": {2: 2}}, "request.a has a name of type int: use str"),
        (lambda *_: _CYCLE, "request.self is nested deeper than 99 levels"),
        (lambda *_: {"a": "\ud800"}, "the request holds half of a character (a lone surrogate)"),
        (lambda *_: {"a": "x" * 30_000}, "the request has 60016 bytes in UTF-16; the limit is 60000"),
        (lambda *_: {"a": "😀" * 15_000}, "the request has 60016 bytes in UTF-16; the limit is 60000"),
    ],
)
def test_function_that_raises_or_returns_no_request_stops_its_task(request_function: Any, error: str) -> None:
    """The error text is bounded, printable, and holds no value of the request."""
    registry = _registry(Step("z", request=_request, when=None), Step("a", request=request_function))
    [_, broken] = _plan(_task(registry), registry)
    assert isinstance(broken, StepBroken)
    assert error in broken.error
    assert len(broken.error.encode()) <= 1024


class Vault(BaseModel):
    """A payload, result and event with names that are secret."""

    doors: dict[SecretStr, int] = {}


class Open(BaseModel):
    """A payload of any names."""

    doors: dict[str, Any] = {}
    weight: int = 1


def test_error_text_names_no_place_below_a_secret_field() -> None:
    """Neither in an event nor in the reason of a suspension: names below a field may be secret."""
    secret = '{"doors":{"c4n4ry":"x"}}'
    reads = Step("b", needs=["a"], request=_request)
    registry = _registry(Step("a", request=_request, result=Vault), reads, payload=Open)
    record = _done(_task(registry, secret), registry, "a", secret)
    [rejected] = _plan(record, registry)
    assert isinstance(rejected, ResultRejected)
    missing = with_valid_result(record, registry, end(record, "a", result=secret))
    strict = _registry(Step("a", request=_request, result=Vault), reads, payload=Vault)
    [suspended] = _plan(record, strict)
    assert isinstance(suspended, Suspended)
    texts = [rejected.error, missing.error or "", suspended.reason]
    functions: list[Callable[..., Any]] = [
        lambda *_: {"doors": {"c4n4ry": object()}},
        lambda *_: Vault.model_validate_json(secret),
    ]
    for function in functions:
        registry = _registry(Step("a", request=function))
        [broken] = _plan(_task(registry), registry)
        assert isinstance(broken, StepBroken)
        texts.append(broken.error)
    for text in texts:
        assert "doors" in text
        assert "c4n4ry" not in text


def test_function_that_changes_its_inputs_changes_no_record() -> None:
    """Each function has its own copies."""

    def spoil(parcel: Parcel, results: Results) -> dict[str, object]:
        parcel.weight = 0
        results["z"]["a"] = 2
        return {"weight": parcel.weight}

    registry = _registry(
        Step("z", request=_request),
        Step("a", needs=["z"], request=spoil),
        Step("b", needs=["z"], request=lambda p, results: {"z": results["z"], "weight": p.weight}),
    )
    record = _run(_done(_task(registry), registry, "z", '{"a":1}'), registry)
    assert (record.do("a").request, record.do("b").request) == ('{"weight":0}', '{"z":{"a":1},"weight":7}')


def test_recorded_result_that_its_model_rejects_is_an_error_of_its_own_step() -> None:
    """A step that reads it is not at fault. In an undo an operator decides."""
    step = Step("a", request=_request, result=Label, undo=True)
    reader = Step("b", needs=["a"], request=_request, undo=lambda _p, _r, _own: {})
    registry = _registry(step, reader)
    record = _done(_task(registry), registry, "a", '{"number":"x"}')
    [rejected] = _plan(record, registry)
    assert isinstance(rejected, ResultRejected)
    assert (rejected.step, rejected.error.startswith("Label rejects it: number: ")) == ("a", True)
    assert derive(_run(record, registry)).state is ProcessState.ERROR
    undoing = replace(record.with_operation("b", Operation(number=9)), direction=Direction.UNDO)
    [broken] = _plan(undoing, registry)
    assert isinstance(broken, StepBroken)
    assert broken.error.startswith("a: Label rejects it")


@pytest.mark.parametrize(
    ("result", "own"),
    [('{"number":3}', '{"own":3}'), ('{"number":"x"}', '{"own":null}'), (None, '{"own":null}')],
)
def test_undo_is_made_from_the_own_result(result: str | None, own: str) -> None:
    """It is `None` where it is unknown or invalid."""

    def undo(_parcel: Parcel, _results: Results, own: Label | None) -> dict[str, object]:
        return {"own": None if own is None else own.number}

    registry = _registry(Step("a", request=_request, result=Label, undo=undo), Step("b", request=_request))
    record = _run(_task(registry), registry)
    if result is not None:
        record = after(record, end(record, "a", result=result))
    record = _run(after(record, cancel()), registry)
    assert record.current("a").request == own


def test_undo_of_an_item_gets_the_item() -> None:
    """Without a function, an undo sends the request of the do."""
    each = Step("a", for_each=_labels, request=_of_item, undo=lambda *inputs: {"undo": inputs[3]})
    registry = _registry(each, Step("b", request=_request, undo=True))
    record = _run(_task(registry, '{"labels":["x"]}'), registry)
    record = _run(after(record, cancel()), registry)
    assert record.current("b").request == '{"weight":1}'
    record = _run(after(record, end(record, "b")), registry)
    assert record.current("a.0").request == '{"undo":"x"}'


@pytest.mark.parametrize(
    ("time", "error"),
    [
        (None, "until returned NoneType: return a datetime with a time zone"),
        (datetime(2026, 1, 1), "until returned datetime: return a datetime with a time zone"),  # noqa: DTZ001 - it is wrong
        (NOW + timedelta(days=400), "until returned 2027-02-05: return a time within a year"),
    ],
)
def test_timer_without_a_time_stops_its_task(time: Any, error: str) -> None:
    """The text names the fix."""
    registry = _registry(TimerStep("a", until=lambda _p, _r: time))
    assert _plan(_task(registry), registry) == [StepBroken(epoch=1, step="a", error=error)]


def test_waiting_steps_record_their_start() -> None:
    """An event step has its time limit from its start on."""
    registry = _registry(
        EventStep("a", event=Label, complete_within=60), TimerStep("b", until=lambda *_: at(9))
    )
    [event, timer] = _plan(_task(registry), registry)
    assert isinstance(event, StepStarted)
    assert isinstance(timer, StepStarted)
    assert (event.complete_by, event.request, timer.complete_by) == (at(61), "{}", at(9))
    record = after(_run(_task(registry), registry), EventReceived(step="a", body='{"number":1}', who="me"))
    assert record.do("a").state is OperationState.DONE


def test_output_is_made_from_all_results() -> None:
    """An error of its function is raised as one kind of error."""

    def output(_parcel: Parcel, results: Results) -> dict[str, object]:
        return {"number": results["a"].number}

    step = Step("a", request=_request, result=Label)
    registry = _registry(step, output=output)
    assert output_of(_done(_task(registry), registry, "a", '{"number":3}'), registry) == '{"number":3}'
    assert output_of(_task(registry), _registry(step)) is None
    with pytest.raises(UnfitValueError, match="AttributeError: 'NoneType'"):
        output_of(_task(registry), registry)


def test_result_is_checked_when_it_is_recorded() -> None:
    """An operator's result is checked by the same rule."""
    registry = _registry(Step("a", request=_request, result=Label), Step("b", request=_request))
    record = _run(_task(registry), registry)
    ended: StepEnded = end(record, "a", result='{"number":1}')
    spaced = replace(ended, result='{ "number": 1 }')
    assert with_valid_result(record, registry, spaced) == ended
    refused = end(record, "a", OutcomeKind.REFUSED)
    assert with_valid_result(record, registry, refused) is refused
    missing = with_valid_result(record, registry, replace(ended, result='{"n":1}'))
    assert (missing.kind, missing.result) == (OutcomeKind.DONE_WITHOUT_RESULT, None)
    assert missing.error == "Label rejects it: number: Field required"
    assert checked_result(record, registry, "b", '{"n": 1}') == '{"n":1}'
    for name, result, fault in (
        ("z", "{}", "the task has no step z"),
        ("b", None, "ValueError: EOF"),
        ("b", "[]", "the result is of type list: return a dict"),
        ("a", '{"number":"x"}', "Label rejects it: number: "),
    ):
        with pytest.raises(UnfitValueError, match=fault):
            checked_result(record, registry, name, result)
    assert checked_result(record, WorkflowRegistry([_CHILD]), "a", "{}") == "{}"


def test_digest_of_an_item_is_equal_in_every_process() -> None:
    """Sets are sorted; of a model, only the fields that were set count."""
    assert item_digest({"b", "a"}) == item_digest(frozenset({"a", "b"})) == item_digest(["a", "b"])
    assert item_digest(Label(number=1)) == item_digest({"number": 1})
    seat = make_dataclass("Seat", ["tags"])(frozenset("abcdefgh"))
    assert item_digest(seat) == item_digest({"tags": list("abcdefgh")})
    assert item_digest((1, NOW)) != item_digest((1, at(1)))
    assert items_of(DefinedStep(spec=_CHILD.specs[0]), Parcel()) == ()
