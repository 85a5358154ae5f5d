"""Secret fields are hidden in each part of a task that is shown."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Json,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    WithJsonSchema,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, core_schema

from functions.pattern.contents import Contents, NotShownError, fields_of, may_have_secrets
from functions.pattern.definition import Registry, Step
from functions.pattern.identity import StepName
from functions.pattern.records import TaskRecord
from functions.pattern.secret_fields import HIDDEN, SecretFields, secret_fields
from functions.pattern.states import Direction, StepState
from functions.pattern.wait_events import EventReceived
from tests.fakes.interventions import cancellation
from tests.fakes.purchases import CANARY, CONFIRM, EVENT, PAY, PAYLOAD, PURCHASES, SHIP, purchase
from tests.fakes.tasks import SECOND, after, claimed, completed, pending, started, told
from tests.fakes.workflows import LINE, TASK, nested, workflow

SECRET = "c4n4ry"
Marked = Annotated[str, Field(json_schema_extra={"writeOnly": True})]


class Login(BaseModel):
    """Has a secret, and what is none."""

    password: SecretStr
    user: str = ""


class Strange:
    """Has no JSON schema of its own."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(cls)


class Tree(BaseModel):
    """Holds itself."""

    secret: Marked | None = None
    below: list[Tree] = []


class Pin(Secret[int]):
    """Shows a part of itself, as pydantic's documentation has it."""


class ByKind(BaseModel):
    """One of a union that is told apart."""

    kind: Literal["key"]
    key: Marked


def _login_of(given: Any) -> Any:
    return {"password": given} if isinstance(given, str) else given


LOGIN = {"password": SECRET, "user": "ann"}
SHOWN = {"password": HIDDEN, "user": "ann"}


@pytest.mark.parametrize(
    ("annotation", "content", "shown"),
    [
        (SecretStr, SECRET, HIDDEN),
        (SecretBytes, SECRET, HIDDEN),
        (Secret[int], 730_214, HIDDEN),
        (Pin, 730_214, HIDDEN),
        (Annotated[SecretStr, Field(json_schema_extra=dict.clear)], SECRET, HIDDEN),
        (Marked, SECRET, HIDDEN),
        (SkipJsonSchema[SecretStr], SECRET, HIDDEN),
        (list[Annotated[SecretStr, WithJsonSchema({"type": "string"})]], [SECRET], [HIDDEN]),
        (Annotated[Login, WithJsonSchema({"type": "object"})], LOGIN, SHOWN),
        (Annotated[Strange, WithJsonSchema({"type": "string"})], "a", "a"),
        (SecretStr | None, SECRET, HIDDEN),
        (SecretStr | None, None, None),
        (Annotated[bool, Field(json_schema_extra={"writeOnly": True})], True, HIDDEN),
        (Login, LOGIN, SHOWN),
        (Login | None, LOGIN, SHOWN),
        (Annotated[Login, Field(json_schema_extra={"writeOnly": True})], LOGIN, HIDDEN),
        (list[Login], [LOGIN], [SHOWN]),
        (list[SecretStr], [SECRET], [HIDDEN]),
        (tuple[int, Login], [1, LOGIN], [1, SHOWN]),
        (dict[str, SecretStr], {"a": SECRET}, {"a": HIDDEN}),
        (dict[str, Login], {"a": LOGIN}, {"a": SHOWN}),
        (dict[Annotated[str, Field(pattern="^a")], SecretStr], {"a": SECRET}, {"a": HIDDEN}),
        (dict[SecretStr, int], {SECRET: 1}, HIDDEN),
        (
            Annotated[Login | ByKind, Field()],
            {"kind": "key", "key": SECRET},
            {"kind": "key", "key": HIDDEN},
        ),
        (Tree, {"below": [{"secret": SECRET}]}, {"below": [{"secret": HIDDEN}]}),
        (RootModel[list[Login]], [LOGIN], [SHOWN]),
        (Json[Login], f'{{"password": "{SECRET}"}}', HIDDEN),
        (Json[dict[Annotated[str, Field(pattern="^a")], list[tuple[Tree]]]], SECRET, HIDDEN),
        (Annotated[Login, BeforeValidator(_login_of)], SECRET, HIDDEN),
        (Annotated[Login, BeforeValidator(_login_of)], [SECRET], [HIDDEN]),
        (Any, {"a": [{"b": 1}]}, {"a": [{"b": 1}]}),
        (dict[str, Any], {"a": [SECRET]}, {"a": [SECRET]}),
    ],
)
def test_secret_fields_are_hidden(annotation: Any, content: Any, shown: Any) -> None:
    """Whatever they stand in, beside what is none."""

    class Other(BaseModel):
        """Has a secret besides, so that the model has one in any case."""

        field: annotation
        beside: SecretStr

    content = {"field": content, "beside": "x"}
    assert SecretFields(Other).hide(content) == {"field": shown, "beside": HIDDEN}


class Named(BaseModel):
    """Fields that can be sent under other names."""

    model_config = ConfigDict(extra="allow", validate_by_name=True, validate_by_alias=True)

    first: Annotated[SecretStr | None, Field(validation_alias=AliasChoices("one", "uno"))] = None
    second: Annotated[SecretStr | None, Field(validation_alias=AliasPath("two", "deep"))] = None
    third: Annotated[int, Field(alias="three")] = 0


@pytest.mark.parametrize(
    "sent",
    [
        {"one": SECRET},
        {"uno": SECRET},
        {"first": SECRET},
        {"two": {"deep": SECRET}},
        {"extra": SECRET},
    ],
)
def test_secret_is_hidden_under_each_of_its_names(sent: dict[str, Any]) -> None:
    """What the schema does not know could be one; what it knows is shown, by alias and by name."""
    for shown in ({"three": 3}, {"third": 3}):
        assert SecretFields(Named).hide(sent | shown) == dict.fromkeys(sent, HIDDEN) | shown


class Plain(BaseModel):
    """Has no secret."""

    user: str


def test_model_without_a_secret_hides_nothing() -> None:
    """Not even what it does not know."""
    assert secret_fields(Plain).hide({"user": "ann", "more": SECRET}) == {"user": "ann", "more": SECRET}
    assert secret_fields(Plain) is secret_fields(Plain)


def test_unknown_reference_hides_what_it_stands_for() -> None:
    """A model can bring a schema of its own."""

    class Odd(BaseModel):
        """Refers to nowhere."""

        password: SecretStr
        odd: Annotated[str, Field(json_schema_extra={"anyOf": [{"$ref": "https://example.com/nowhere"}]})]

    assert SecretFields(Odd).hide({"odd": SECRET}) == {"odd": HIDDEN}


def test_long_lists_do_not_block_the_process() -> None:
    """What an item is meant by is looked at once, not for each of them."""

    class Many(BaseModel):
        items: list[Login | ByKind | Tree]
        pair: tuple[int, SecretStr]

    content = {"items": [{"user": "anna"}] * 40_000, "pair": [1, SECRET]}
    begun = time.process_time()
    assert SecretFields(Many).hide(content) == content | {"pair": [1, HIDDEN]}
    assert time.process_time() - begun < 1.5


class Open(BaseModel):
    """Is a purchase without a secret field."""

    model_config = ConfigDict(extra="ignore")

    amount: int


def _open(**changes: Any) -> Registry:
    """Deploy purchases without a secret field, and with `changes` of the first step."""
    as_open: dict[str, Any] = {"request": lambda order, _: {"amount": order.amount}}
    first: Step = replace(PURCHASES.steps[0], **as_open | changes)
    others = (replace(each, payload=each.payload and Plain) for each in PURCHASES.steps[1:])
    return Registry((replace(PURCHASES, payload=Open, steps=(first, *others)),), {})


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


OF_SECRETS = "its workflow has secret fields, and no model declares those of a request"


def test_request_to_an_agent_is_not_shown_beside_secret_fields() -> None:
    """Any of its fields may have the value of a secret field of the payload or of an event."""
    contents = Contents(HERE, paid())
    for step, direction in ((PAY, Direction.DO), (SHIP, Direction.DO), (PAY, Direction.UNDO)):
        with pytest.raises(NotShownError, match=f"^{OF_SECRETS}$"):
            contents.request(step, direction)
    only_event = replace(PURCHASES, payload=Open)
    with pytest.raises(NotShownError, match=OF_SECRETS):
        Contents(Registry((only_event,), {}), paid()).request(PAY, Direction.DO)


def test_request_is_shown_where_no_field_is_secret() -> None:
    """Neither of the payload nor of an event."""
    assert Contents(_open(), paid()).request(PAY, Direction.DO) == {"amount": 5}


def test_results_are_shown() -> None:
    """An event's by its model; a service's as it is, since no model declares its fields."""
    contents = Contents(HERE, paid())
    assert contents.result(PAY) == {"receipt": "R-1", "card": CANARY}
    assert contents.result(CONFIRM) == {"code": HIDDEN, "by": "Ann"}
    assert contents.result(SHIP) is None


def test_nothing_is_shown_of_what_is_not_deployed() -> None:
    """Its model would say what is secret."""
    contents = Contents(NOWHERE, paid())
    why = "version 1 of 'purchase' is not deployed here"
    with pytest.raises(NotShownError, match=why):
        _ = contents.payload
    with pytest.raises(NotShownError, match=why):
        contents.result(CONFIRM)
    with pytest.raises(NotShownError, match=why):
        contents.request(PAY, Direction.DO)


def test_nothing_is_shown_where_an_event_is_not_deployed() -> None:
    """Its model would say what is secret."""
    others = tuple(step for step in PURCHASES.steps if step.name != CONFIRM)
    changed = replace(PURCHASES, steps=tuple(replace(step, needs=frozenset()) for step in others))
    with pytest.raises(NotShownError, match="step 'confirm' is not deployed here"):
        Contents(Registry((changed,), {}), paid()).result(CONFIRM)


def test_step_without_its_agent_is_not_shown() -> None:
    """Its request is another's to make; the reason names it."""
    with pytest.raises(NotShownError, match="its Agent 'pay' is not deployed here"):
        Contents(_open(agent="bank"), paid()).request(PAY, Direction.DO)


def _raise(*_: Any) -> Any:
    raise ValueError(f"no such card: {CANARY}")


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
        Contents(_open(request=make), paid()).request(PAY, Direction.DO)
    assert str(reason.value).startswith(said)


def test_model_without_a_schema_is_not_shown() -> None:
    """It does not say what is secret."""

    class Odd(BaseModel):
        """Holds what JSON does not have."""

        model_config = ConfigDict(arbitrary_types_allowed=True)

        field: Registry

    with pytest.raises(NotShownError, match="its model has no JSON schema"):
        fields_of(Odd)
    assert may_have_secrets(Odd)


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
    assert answer == {"paid_by": CANARY, "receipt": 7}
    begun = told(waiting, cancellation(), claimed(SECOND))
    here = Registry((replace(parent, steps=(replace(parent.steps[0], workflow="line"),)), LINE), {})
    with pytest.raises(NotShownError, match="its workflow 'purchase' is not deployed here"):
        Contents(here, begun).request(StepName("buy"), Direction.UNDO)
