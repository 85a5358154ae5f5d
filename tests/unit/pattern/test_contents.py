"""What a task holds is shown without its secrets, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel

from functions.pattern.contents import Contents, NotShownError, fields_of
from functions.pattern.definition import Registry, Step
from functions.pattern.hiding import HIDDEN, Secrets
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.states import Direction, StepState
from functions.pattern.wait_events import EventReceived
from tests.fakes.interventions import cancellation
from tests.fakes.purchases import (
    CANARY,
    CONFIRM,
    EVENT,
    PAY,
    PAYLOAD,
    PURCHASES,
    SHIP,
    purchase,
)
from tests.fakes.tasks import (
    SECOND,
    after,
    claimed,
    completed,
    pending,
    started,
    told,
)
from tests.fakes.workflows import LINE, TASK, nested, workflow

HERE = Registry((PURCHASES, LINE), {})
NOWHERE = Registry((LINE,), {})
TOLD = EventReceived(step=CONFIRM, body=EVENT, who="anna", start_by=after(30))


def paid(result: dict[str, Any] | None = None) -> TaskRecord:
    """Create a purchase that is paid and confirmed, and is being shipped."""
    given = json.dumps(result or {"receipt": "R-1", "card": CANARY}).encode()
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
    """In requests made of results and events, and in the request of the undo, too."""
    contents = Contents(HERE, paid())
    assert contents.request(PAY, Direction.DO) == {
        "amount": 5,
        "card": HIDDEN,
        "pin": HIDDEN,
    }
    confirmed = {"code": HIDDEN, "by": "Ann"}
    assert contents.request(SHIP, Direction.DO) == {
        "paid": {"receipt": "R-1", "card": HIDDEN},
        "confirmed": confirmed,
    }
    assert contents.request(PAY, Direction.UNDO) == {"refund_to": HIDDEN}


class Kind(Enum):
    """Is written by its value."""

    GIFT = "gift-c4n4ry"


_SECRET = Field(json_schema_extra={"writeOnly": True})


class Wish(BaseModel):
    """Changes the values of its secret fields."""

    model_config = ConfigDict(extra="allow")

    card: Annotated[str, AfterValidator(lambda number: number.replace(" ", "")), _SECRET] = ""
    words: Annotated[RootModel[set[str]], _SECRET] = RootModel[set[str]](set())
    kinds: Annotated[dict[str, tuple[Kind, ...]], _SECRET] = {}


def _request_of(wish: Wish, _results: Any) -> dict[str, Any]:
    kinds = [each.value for kinds in wish.kinds.values() for each in kinds]
    return {"card": wish.card, "words": [*wish.words.root], "kinds": kinds, "beside": wish.model_extra}


def test_request_is_made_without_values_that_the_model_has_changed() -> None:
    """The functions of the definition get these values only."""
    payload = {"card": "4111 abcd", "words": ["w0rd"], "kinds": {"a": ["gift-c4n4ry"]}, "beside": "s0me"}
    bought = replace(PURCHASES, steps=(replace(PURCHASES.steps[0], request=_request_of),))
    record = purchase(TASK, bought)
    record = replace(record, order=replace(record.order, payload=json.dumps(payload).encode()))
    shown = Contents(Registry((replace(bought, payload=Wish),), {}), record)
    assert shown.request(PAY, Direction.DO) == {
        "card": HIDDEN,
        "words": [HIDDEN],
        "kinds": [HIDDEN],
        "beside": {"beside": HIDDEN},
    }


def test_value_of_a_secret_field_is_found_as_a_whole_only() -> None:
    """A longer text, a flag and another number stay."""
    secrets = Secrets(frozenset({"hunter2", "123"}))
    content = {"hunter2": ["a", " hunter2 "], "n": [123, "123", 1234, True, None, 1.5], "t": "is hunter2"}
    shown = {HIDDEN: ["a", HIDDEN], "n": [HIDDEN, HIDDEN, 1234, True, None, 1.5], "t": "is hunter2"}
    assert secrets.without(content) == shown
    assert Secrets().without(content) == content
    assert "hunter2" not in repr(secrets)


def test_results_are_shown_without_secrets() -> None:
    """Results of services by the values of secret fields, results of events by their model, too."""
    contents = Contents(HERE, paid())
    assert contents.result(PAY) == {"receipt": "R-1", "card": HIDDEN}
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
        (_raise, f"it can't be made: ValueError: no such card: {CANARY}"),
        (lambda *_: {"a": object()}, "it can't be made: its request can't be written as JSON"),
    ],
    ids=["raises", "no JSON"],
)
def test_function_that_fails_shows_why(make: Callable[..., Any], said: str) -> None:
    """The error text is shown as it is."""
    with pytest.raises(NotShownError) as reason:
        Contents(_changed(request=make), paid()).request(PAY, Direction.DO)
    assert str(reason.value).startswith(said)


def test_model_without_a_schema_is_not_shown() -> None:
    """It does not say what is secret."""

    class Odd(BaseModel):
        """Holds what JSON does not have."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        field: Registry

    with pytest.raises(NotShownError, match="its model has no JSON schema"):
        fields_of(Odd)


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
