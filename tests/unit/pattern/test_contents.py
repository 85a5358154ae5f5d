"""What a task holds is shown without its secrets, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from functions.pattern.completion import rules_of
from functions.pattern.contents import Contents, NotShownError, fields_of
from functions.pattern.definition import Registry, Step
from functions.pattern.events import Event, Parked, StepBroken, StepTried, StepUnknown
from functions.pattern.folding import Told, fold
from functions.pattern.hiding import HIDDEN
from functions.pattern.identity import StartId, StepName, scheduler_id
from functions.pattern.readiness import what_is_missing
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, StepState
from functions.pattern.wait_events import ChildEnded, EventReceived
from tests.fakes.clock import START
from tests.fakes.interventions import cancellation
from tests.fakes.purchases import (
    CANARY,
    CANARY_CODE,
    CANARY_PIN,
    CONFIRM,
    EVENT,
    PAY,
    PAYLOAD,
    PURCHASES,
    SHIP,
    Card,
    Purchase,
    purchase,
)
from tests.fakes.tasks import (
    FIRST,
    SECOND,
    after,
    claimed,
    completed,
    failed,
    pending,
    started,
    told,
    unrecorded,
)
from tests.fakes.workflows import BIRTH, LINE, TASK, Parcel, nested, workflow

HERE = Registry((PURCHASES, LINE), {})
NOWHERE = Registry((LINE,), {})
TOLD = EventReceived(step=CONFIRM, body=EVENT, who="anna", start_by=after(30))


def paid(result: dict[str, Any] | None = None) -> TaskRecord:
    """Create a purchase that is paid and confirmed, and is being shipped."""
    given = json.dumps(result or {"receipt": f"R-{CANARY}"}).encode()
    waits = started("confirm", start_id="confirm")
    begun = told(purchase(TASK), claimed(), started("pay"), completed("pay", result=given), waits)
    return told(begun, TOLD, started("ship"))


def test_payload_is_shown_without_its_secrets() -> None:
    """Everything else stays as it was sent."""
    assert Contents(HERE, paid()).payload == {
        "amount": 5,
        "card": {"number": HIDDEN, "holder": "Ann"},
        "pin": HIDDEN,
    }


def test_requests_are_made_without_secrets() -> None:
    """Also inside texts, and of results and events that they are made of; the undo's, too."""
    contents = Contents(HERE, paid())
    assert contents.request(PAY, Direction.DO) == {
        "amount": 5,
        "card": HIDDEN,
        "auth": f"Card {HIDDEN}",
        "pin": HIDDEN,
    }
    confirmed = {"code": HIDDEN, "by": "Ann"}
    assert contents.request(SHIP, Direction.DO) == {
        "paid": {"receipt": f"R-{HIDDEN}"},
        "confirmed": confirmed,
    }
    assert contents.request(PAY, Direction.UNDO) == {"refund_to": HIDDEN}


def test_results_are_shown_without_secrets() -> None:
    """Those of services by what is known to be secret, those of events by their model, too."""
    contents = Contents(HERE, paid())
    assert contents.result(PAY) == {"receipt": f"R-{HIDDEN}"}
    assert contents.result(CONFIRM) == {"code": HIDDEN, "by": "Ann"}
    assert contents.result(SHIP) is None


def test_nothing_is_shown_of_what_is_not_deployed() -> None:
    """Its model would say what is secret."""
    contents = Contents(NOWHERE, paid())
    why = "version 1 of 'purchase' is not deployed here"
    with pytest.raises(NotShownError, match=why):
        _ = contents.payload
    with pytest.raises(NotShownError, match=why):
        contents.result(PAY)
    with pytest.raises(NotShownError, match=why):
        contents.request(PAY, Direction.DO)


def test_nothing_is_shown_where_an_event_is_not_deployed() -> None:
    """Its secrets could be in any result."""
    others = tuple(step for step in PURCHASES.steps if step.name != CONFIRM)
    changed = replace(PURCHASES, steps=tuple(replace(step, needs=frozenset()) for step in others))
    with pytest.raises(NotShownError, match="step 'confirm' is not deployed here"):
        Contents(Registry((changed,), {}), paid()).result(PAY)


def test_step_without_its_agent_is_not_shown() -> None:
    """Its request is another's to make; the reason names it."""
    changed = replace(PURCHASES, steps=(replace(PURCHASES.steps[0], agent="bank"), *PURCHASES.steps[1:]))
    with pytest.raises(NotShownError, match="its Agent 'pay' is not deployed here"):
        Contents(Registry((changed,), {}), paid()).request(PAY, Direction.DO)


def _raise(*_: Any) -> Any:
    raise ValueError(f"no such card: {CANARY}")


def _changed(**more: Any) -> Registry:
    first: Step = replace(PURCHASES.steps[0], **more)
    return Registry((replace(PURCHASES, steps=(first, *PURCHASES.steps[1:])),), {})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_raise, f"it can't be made: ValueError: no such card: {HIDDEN}"),
        (lambda *_: {"a": object()}, "it can't be made: its request can't be written as JSON"),
    ],
    ids=["raises", "no JSON"],
)
def test_function_that_fails_shows_why(make: Callable[..., Any], said: str) -> None:
    """Without what is secret in its text."""
    with pytest.raises(NotShownError) as reason:
        Contents(_changed(request=make), paid()).request(PAY, Direction.DO)
    assert str(reason.value).startswith(said)


def test_too_many_secrets_are_not_looked_for() -> None:
    """Requests and results are not shown then; the payload is."""

    class Many(BaseModel):
        """A model of which all is secret."""

        model_config = ConfigDict(json_schema_extra={"writeOnly": True})

        keys: list[str]

    workflow = replace(PURCHASES, payload=Many)
    record = paid()
    payload = json.dumps({"keys": [f"key-{number}" for number in range(201)]}).encode()
    contents = Contents(
        Registry((workflow,), {}), replace(record, order=replace(record.order, payload=payload))
    )
    assert contents.payload == HIDDEN
    with pytest.raises(NotShownError, match="too many"):
        contents.result(PAY)
    assert contents.without_secrets("key-1") == HIDDEN


def test_model_without_a_schema_is_not_shown() -> None:
    """It does not say what is secret."""

    class Odd(BaseModel):
        """Holds what JSON does not have."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        field: Registry

    with pytest.raises(NotShownError, match="its model has no JSON schema"):
        fields_of(Odd)


_ID = scheduler_id(TASK, FIRST)
TEXT = f"refused card {CANARY}, pin {CANARY_PIN}, code {CANARY_CODE}"
TEXTS: list[Event] = [
    failed("ship", error=TEXT),
    unrecorded("ship", error=TEXT),
    StepBroken(epoch=FIRST, scheduler=_ID, step=SHIP, error=TEXT, start_by=after(30)),
    StepTried(epoch=FIRST, scheduler=_ID, step=SHIP, start_id=StartId("ship.1.1"), attempts=3, fault=TEXT),
]


@pytest.mark.parametrize("event", TEXTS, ids=lambda event: type(event).__name__)
def test_error_is_recorded_without_secrets(event: Event) -> None:
    """Whatever a service, or a function, says of them."""
    record = fold(paid(), [Told(event)], START, rules_of(HERE)).record
    hidden = f"refused card {HIDDEN}, pin {HIDDEN}, code {HIDDEN}"
    assert hidden in (record.step(SHIP).error or "")
    assert CANARY not in str([record.task, record.history, [step.error for step in record.steps]])


def test_unknown_outcome_is_recorded_without_secrets() -> None:
    """As any other."""
    event = StepUnknown(
        epoch=FIRST, scheduler=_ID, step=SHIP, start_by=after(30), start_id=StartId("s"), fault=TEXT
    )
    assert CANARY not in str(rules_of(HERE).clean(paid(), event))


def test_error_of_what_is_not_deployed_is_recorded_as_it_is() -> None:
    """It is the only reason that there is."""
    assert rules_of(Registry((), {})).clean(pending(LINE), failed("pick")) == failed("pick")


def test_error_of_a_model_that_says_nothing_is_hidden() -> None:
    """It could hold anything."""

    class Silent(Parcel):
        """Has no schema."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        other: Registry | None = None

    silent = Registry((replace(LINE, payload=Silent),), {})
    assert rules_of(silent).clean(pending(LINE), failed("pick")) == failed("pick", error=HIDDEN)


def test_other_events_stay_as_they_are() -> None:
    """A result is what later steps need."""
    event = completed("ship", result=TEXT.encode())
    assert rules_of(HERE).clean(paid(), event) is event


def test_request_of_a_task_is_shown_as_its_own_model_says() -> None:
    """What is secret there may be no secret in its parent."""
    parent = workflow(replace(nested("buy", of="purchase"), request=lambda *_: dict(PAYLOAD)), name="gift")
    record = told(pending(parent), claimed())
    shown = Contents(Registry((parent, PURCHASES), {}), record).request(StepName("buy"), Direction.DO)
    assert shown == {"amount": 5, "card": {"number": HIDDEN, "holder": "Ann"}, "pin": HIDDEN}
    waiting = told(record, started("buy", complete_by=3_600))
    result = json.dumps({"paid_by": CANARY, "receipt": 7}).encode()
    answered = waiting.with_step(replace(waiting.steps[0], state=StepState.COMPLETED, result=result))
    answer = Contents(Registry((parent, PURCHASES), {}), answered).result(StepName("buy"))
    assert answer == {"paid_by": HIDDEN, "receipt": 7}
    begun = told(waiting, cancellation(), claimed(SECOND))
    here = Registry((replace(parent, steps=(replace(parent.steps[0], workflow="line"),)), LINE), {})
    with pytest.raises(NotShownError, match="its workflow 'purchase' is not deployed here"):
        Contents(here, begun).request(StepName("buy"), Direction.UNDO)


def test_end_of_a_task_is_recorded_without_the_secrets_of_its_parent() -> None:
    """Whose payload it was begun with."""
    ended = ChildEnded(
        birth=BIRTH, step=PAY, state=StepState.FAILED, error=f"card {CANARY} refused", start_by=after(30)
    )
    cleaned = rules_of(HERE).clean(paid(), ended)
    assert isinstance(cleaned, ChildEnded)
    assert cleaned.error == f"card {HIDDEN} refused"
    assert rules_of(HERE).clean(paid(), replace(ended, error=None)) == replace(ended, error=None)


def test_defect_of_an_answer_is_recorded_without_secrets() -> None:
    """It is told to the operators, and where the task is a step, to its parent, which does not know them."""

    def answer(bought: Any, _results: Any) -> Any:
        raise ValueError(f"no receipt for {bought.card.number.get_secret_value()}")

    here = Registry((replace(PURCHASES, answer=answer),), {})
    ended = rules_of(here).complete(paid())
    assert ended.task.last_error == f"its answer can't be given: ValueError: no receipt for {HIDDEN}"


def test_task_is_parked_without_its_secrets() -> None:
    """A model that was changed under it says what it refuses, also of what lacks only its answer."""

    class Stricter(Purchase):
        @field_validator("card")
        @classmethod
        def check(cls, card: Card) -> Card:
            raise ValueError(f"unknown card {card.number.get_secret_value()}")

    here, record = Registry((replace(PURCHASES, payload=Stricter, answer=lambda *_: {}),), {}), paid()
    missing = what_is_missing(here, record)
    assert missing is not None
    parked = Parked(epoch=FIRST, scheduler=None, reason=missing.reason, lasting=missing.lasting)
    unfit = "the payload does not fit version 1 of 'purchase' as it is deployed here: card: Value error"
    cleaned = rules_of(here).clean(record, parked)
    assert cleaned == replace(parked, reason=f"{unfit}, unknown card {HIDDEN}")
    assert rules_of(here).complete(record).task.last_error == f"{unfit}, unknown card {HIDDEN}"
