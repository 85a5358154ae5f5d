"""A task needs only the functions of its version; a request gets the results of the steps before it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from itertools import count
from typing import Annotated, Any, Self

import pytest
from pydantic import AfterValidator, BaseModel, create_model, model_validator

from functions.pattern.cannot_start import CannotStart
from functions.pattern.definition import Json, Registry, Results, Step, Workflow
from functions.pattern.identity import StepName
from functions.pattern.inputs import results_of, undo_results_of
from functions.pattern.readiness import Definitions, NotDeployedError, is_new, what_is_missing
from functions.pattern.records import TaskRecord
from functions.pattern.states import StepState, Way
from functions.pattern.texts import MAX_ERROR_BYTES, bounded
from tests.fakes.interventions import UNDOING, cancellation, done
from tests.fakes.tasks import SECOND, claimed, pending, skipped, started, told
from tests.fakes.workflows import DIAMOND, LINE, TRIP, Parcel, each, nested, step, workflow

PICK, SEND = LINE.steps
CAR = StepName("car")
NEWER = replace(LINE, version=2)
GONE = CannotStart("version 1 of 'line' is not deployed here", parks=True)


class Heavier(BaseModel):
    """A payload with a field that the recorded one lacks."""

    weight: int
    height: int


def _line(*steps: Step, **changes: Any) -> Workflow:
    return replace(LINE, steps=steps or LINE.steps, **changes)


def _broken(*_: object) -> Any:
    raise ZeroDivisionError("division by zero")


def _failing(*_: object) -> Any:
    raise OSError("a")


def _look(*deployed: Workflow) -> bool | datetime | CannotStart:
    return Definitions(Registry(deployed, {}), told(pending(LINE), claimed())).look_at(StepName("pick"))


@pytest.mark.parametrize(
    ("deployed", "reason"),
    [
        ([], GONE.reason),
        ([NEWER], GONE.reason),
        ([_line(step("take"))], "step 'pick' of version 1 of 'line' is not deployed here"),
        (
            [_line(replace(PICK, agent="robot"))],
            "step 'pick' of version 1 of 'line': its Agent 'pick' is not deployed here (by way activity)",
        ),
        (
            [_line(replace(PICK, via=Way.QUEUE))],
            "step 'pick' of version 1 of 'line': its Agent 'pick' is not deployed here (by way activity)",
        ),
        (
            [_line(payload=Heavier)],
            "the payload does not fit version 1 of 'line' as it is deployed here: height: Field required",
        ),
    ],
)
def test_what_is_not_deployed_parks(deployed: list[Workflow], reason: str) -> None:
    """The reason names it: workflow and version, step, Agent, field."""
    for missing in (_look(*deployed), what_is_missing(Registry(tuple(deployed), {}), pending(LINE))):
        assert isinstance(missing, CannotStart)
        assert (missing.reason, missing.parks) == (reason, True)


@pytest.mark.parametrize(
    "deployed",
    [
        [LINE],
        [NEWER, LINE],
        [_line(PICK, step("check", "pick"), replace(SEND, needs={StepName("check")}))],
        [_line(PICK, SEND, replace(SEND, name=StepName("tell")))],
        [_line(replace(PICK, complete_within=99, undo=True), SEND)],
    ],
    ids=["same", "newer beside it", "inserted", "appended", "another limit"],
)
def test_what_is_deployed_beside_it_keeps_nothing(deployed: list[Workflow]) -> None:
    """Nothing but the functions of the recorded steps is asked for."""
    assert _look(*deployed) is True
    assert what_is_missing(Registry(tuple(deployed), {}), pending(LINE)) is None


@pytest.mark.parametrize("field", ["request", "when"])
def test_defect_is_the_definitions_own_if_its_shape_is_the_recorded_one(field: str) -> None:
    """Under another shape, somebody changed it under the task: that is no reason to hold it."""
    broken = replace(PICK, **{field: _broken})  # type: ignore[arg-type]
    reason = "step 'pick': ZeroDivisionError: division by zero"
    in_place = "version 1 of 'line' as it is deployed here is not the recorded one"
    own, changed = _look(_line(broken, SEND)), _look(_line(broken))
    assert isinstance(own, CannotStart)
    assert isinstance(changed, CannotStart)
    assert (own.reason, own.parks) == (reason, False)
    assert (changed.reason, changed.parks) == (f"{in_place}; {reason}", True)


@pytest.mark.parametrize(
    ("limits", "settings"),
    [({}, {"line.pick": 99}), ({"cancel_within": 60}, {})],
    ids=["setting", "cancelling"],
)
def test_other_limit_makes_no_request_fail(limits: Any, settings: dict[str, float]) -> None:
    """A request that raises under it is a defect: the task is held, and does not wait for a deployment."""
    recorded, broken = replace(PICK, undo=True), replace(PICK, undo=True, request=_broken)
    deployed = Registry((_line(broken, SEND, **limits),), settings)
    look = Definitions(deployed, told(pending(_line(recorded, SEND)), claimed())).look_at(StepName("pick"))
    assert isinstance(look, CannotStart)
    assert (look.reason, look.parks) == ("step 'pick': ZeroDivisionError: division by zero", False)


@pytest.mark.parametrize(
    ("recorded", "is_other"),
    [
        (
            "version 1 of 'line' as it is deployed here is not the recorded one; step 'pick': OSError: b",
            False,
        ),
        ("version 1 of 'line' as it is deployed here is not the recorded one; step 'send': OSError: a", True),
        (
            "version 1 of 'line' as it is deployed here is not the recorded one; step 'pick': KeyError: a",
            True,
        ),
        (GONE.reason, True),
        (None, True),
    ],
)
def test_what_an_exception_says_makes_no_new_reason(recorded: str | None, *, is_other: bool) -> None:
    """It may name a moment, or an object's address: the task would be written in every sweep."""
    look = _look(_line(replace(PICK, request=_failing)))
    assert isinstance(look, CannotStart)
    assert is_new(look.lasting, recorded) is is_other
    assert not is_new(look.lasting, look.reason)


def test_reason_that_was_cut_when_it_was_recorded_is_the_same() -> None:
    """Of whichever kind."""
    for fault in (None, OSError("x")):
        long = CannotStart(10_000 * "x", parks=True, fault=fault)
        assert not is_new(long.lasting, bounded(long.reason, MAX_ERROR_BYTES))
    assert not is_new(GONE.lasting, GONE.reason)


def test_step_whose_condition_is_false_is_not_needed() -> None:
    """Then its request is not made at all."""
    never: Callable[[Any, Any], bool] = lambda _payload, _results: False  # noqa: E731 - a table of one
    assert _look(_line(replace(PICK, when=never, request=_broken), SEND)) is False


def test_undo_needs_an_agent_that_can() -> None:
    """One whose undo went with the new definition is not the one that the task needs."""
    without = replace(TRIP, steps=tuple(replace(each, undo=False) for each in TRIP.steps))
    look = Definitions(Registry((without,), {}), UNDOING).look_at(StepName("car"))
    assert isinstance(look, CannotStart)
    assert look.reason.endswith("its Agent 'car' is not deployed here with undo (by way activity)")
    assert Definitions(Registry((TRIP,), {}), UNDOING).look_at(StepName("car")) is True


def test_task_goes_on_as_soon_as_one_step_can() -> None:
    """Or when nothing is left to start, and its answer can be given."""
    fork = workflow(step("left"), step("right"), name="line", resource="lines")
    assert what_is_missing(Registry((replace(fork, steps=fork.steps[:1]),), {}), pending(fork)) is None
    ended = told(pending(LINE), claimed(), skipped("pick"), skipped("send"))
    assert what_is_missing(Registry((LINE,), {}), ended) is None
    assert what_is_missing(Registry((), {}), ended) == GONE
    # Step under way is missed by the next epoch.
    assert what_is_missing(Registry((), {}), told(pending(LINE), claimed(), started("pick"))) == GONE
    once = workflow(step("pick", idempotent=False), name="line", resource="lines")
    assert what_is_missing(Registry((), {}), told(pending(once), claimed(), started("pick"))) is None


def test_request_of_what_is_not_deployed_is_refused() -> None:
    """Also where nobody looked before."""
    with pytest.raises(NotDeployedError, match="version 1 of 'line'"):
        Definitions(Registry((), {}), pending(LINE)).request(StepName("pick"))


class _Divides(BaseModel):
    """A model that forgets that a weight can be 3, and says something else each time."""

    weight: int

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.weight == 3:
            raise _NoSeatError(object())
        return self


class _NoSeatError(Exception):
    """Names an object, or can't even do that."""

    def __str__(self) -> str:
        return f"no seat in {self.args[0]}"


def test_payload_model_that_raises_parks() -> None:
    """Whatever it raises, it is the deployment's defect: also where only the answer is left to be given."""
    deployed = Registry((_line(payload=_Divides, answer=lambda *_: {}),), {})
    unfit = "the payload does not fit version 1 of 'line' as it is deployed here: _NoSeatError: no seat in"
    ended = told(pending(LINE), claimed(), skipped("pick"), skipped("send"))
    for record in (pending(LINE), ended):
        missing, again = (what_is_missing(deployed, record) for _ in range(2))
        assert missing is not None
        assert again is not None
        assert (missing.parks, missing.reason.startswith(unfit)) == (True, True)
        assert missing.reason != again.reason
        assert not is_new(again.lasting, missing.reason)


def test_payload_that_a_validator_refuses_with_another_text_has_no_new_reason() -> None:
    """Such as a text with the time of day: the task is parked, and alerted, once."""
    texts = count()

    def late(_: int) -> int:
        raise ValueError(f"late by {next(texts)}")

    model = create_model("Late", weight=(Annotated[int, AfterValidator(late)], ...))
    deployed = Registry((_line(payload=model),), {})
    first, again = (what_is_missing(deployed, pending(LINE)) for _ in range(2))
    assert first is not None
    assert again is not None
    assert first.reason != again.reason
    assert not is_new(again.lasting, first.reason)


def test_defect_that_has_no_text_is_a_defect_all_the_same() -> None:
    """The task is held, and not recovered in vain."""

    def request(*_: object) -> Any:
        raise _NoSeatError

    look = _look(_line(replace(PICK, request=request), SEND))
    assert isinstance(look, CannotStart)
    assert look.reason == "step 'pick': _NoSeatError: (its text raises IndexError)"
    assert not is_new(look.lasting, look.reason)


def _nested(record: TaskRecord) -> Definitions:
    """Ask a deployment in which the step is another workflow's task than it was recorded as."""
    here = workflow(nested("car", of="trip"), name="line", resource="lines")
    return Definitions(Registry((here, TRIP), {}), record)


def test_step_of_a_workflow_that_is_not_here_parks() -> None:
    """Also when it has begun and its task may be missing; to undo it, no definition is needed."""
    line = workflow(nested("car", of="taxi"), name="line", resource="lines")
    reason = "step 'car' of version 1 of 'line': its workflow 'taxi' is not deployed here"
    record = told(pending(line), claimed())
    assert _nested(record).look_at(CAR) == CannotStart(reason, parks=True)
    begun = told(record, started("car", complete_by=3_600))
    registry = _nested(record).registry
    assert what_is_missing(registry, begun) == CannotStart(reason, parks=True)
    undone = told(begun, cancellation(), claimed(SECOND))
    assert _nested(undone).look_at(CAR) is True
    assert what_is_missing(registry, undone) is None


def test_results_are_read_once_however_many_steps_need_them() -> None:
    """Many items of many large results would hold up a process for half a minute."""
    given = list[Any]()

    def request(_parcel: Parcel, results: Results, _item: int) -> Json:
        given.append(results[StepName("pick")])
        return {}

    flow = workflow(step("pick"), replace(each("send", "pick"), request=request))
    here = Definitions(Registry((flow,), {}), told(pending(flow), claimed(), *done("pick")))
    assert [here.look_at(StepName(f"send.{number}")) for number in range(3)] == [True] * 3
    assert given[0] is given[1] is given[2]


LEFT = StepName("left")


def _ended(record: TaskRecord, **results: bytes | None) -> TaskRecord:
    for name, result in results.items():
        state = StepState.SKIPPED if result is None else StepState.COMPLETED
        record = record.with_step(replace(record.step(StepName(name)), state=state, result=result))
    return record


def test_step_gets_what_it_needs_and_what_that_needs() -> None:
    """In the workflow's order."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}', left=b'{"n":2}', right=b'{"n":3}')
    results = results_of(done, StepName("close"))
    assert list(results.items()) == [("open", {"n": 1}), ("left", {"n": 2}), ("right", {"n": 3})]
    # Step gets nothing of a sibling.
    done = _ended(pending(DIAMOND), open=b'{"n":1}', right=b'{"n":3}')
    assert results_of(done, LEFT) == {"open": {"n": 1}}
    assert results_of(done, StepName("open")) == {}


def test_forgotten_need_is_named_with_its_fix() -> None:
    """In the first test, whichever step is faster."""
    done = _ended(pending(DIAMOND), open=b"{}", right=b"{}")
    with pytest.raises(KeyError, match="step 'left' gets no result of 'right': add it to its needs"):
        results_of(done, LEFT)[StepName("right")]


def test_skipped_step_is_there_as_none() -> None:
    """And what that one needs has its result."""
    line = workflow(step("a"), step("b", "a"), step("c", "b"))
    done = _ended(pending(line), a=b'{"n":1}', b=None)
    assert results_of(done, StepName("c")) == {"a": {"n": 1}, "b": None}


def test_undo_gets_its_steps_own_result_too() -> None:
    """None where it is unknown; and nothing of a sibling."""
    done = _ended(pending(DIAMOND), open=b'{"n":1}', left=b'{"n":2}', right=b'{"n":3}')
    assert undo_results_of(done, LEFT) == {"open": {"n": 1}, "left": {"n": 2}}
    assert undo_results_of(_ended(done, left=None), LEFT) == {"open": {"n": 1}, "left": None}
    # Result stays there while the task is undone.
    done = _ended(pending(DIAMOND), open=b'{"n":1}')
    undone = done.with_step(replace(done.step(StepName("open")), state=StepState.UNDONE))
    assert results_of(undone, LEFT) == {"open": {"n": 1}}
