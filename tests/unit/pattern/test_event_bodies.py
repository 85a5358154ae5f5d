"""Bodies of events, and the keys by which a task is found: the payload as its model reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import date
from decimal import Decimal
from itertools import count
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    ValidationError,
    model_serializer,
    model_validator,
)

from functions.pattern.cannot_start import CannotStart
from functions.pattern.definition import Default, Registry, Workflow
from functions.pattern.errors import DefinitionError, UnfitOrderError
from functions.pattern.event_bodies import check_body, read_body, schema_of
from functions.pattern.identity import StepName
from functions.pattern.plain_json import plain_json
from functions.pattern.readiness import Definitions
from functions.pattern.records import TaskRecord
from functions.pattern.search_keys import MAX_KEYS, search_key, search_keys
from tests.fakes.tasks import told
from tests.fakes.workflows import DIAMOND, Parcel, awaiting, each, order, step, workflow
from tests.unit.pattern.waiting_tasks import after_the_end, event_of, waiting

SEND = StepName("send")


class Signed(BaseModel):
    """Sent by an alias; has a default, and a secret."""

    model_config = ConfigDict(extra="forbid")

    is_ok: Annotated[bool, Field(alias="isOk")]
    note: str = "none"
    code: SecretStr = SecretStr("")


def _flow(model: type[BaseModel] = Signed, **more: Any) -> Workflow:
    """Pay, wait for the event, and send what it said."""
    send = replace(step("send", "approve"), request=lambda _, results: {"said": results["approve"]})
    approve = replace(awaiting("approve", "pay"), payload=model, **more)
    return workflow(step("pay", undo=True), approve, send)


def _said(record: TaskRecord, deployed: Workflow) -> Any:
    return Definitions(Registry((deployed,), {}), record).request(SEND)["said"]


def _told(body: bytes) -> TaskRecord:
    return told(waiting(_flow()), event_of(body))


BODY = b'{"code":"1234","isOk":false}'


def test_event_is_read_through_its_model() -> None:
    """Defaults are there, names are as they are sent, and a secret is what it is."""
    assert _said(_told(BODY), _flow()) == {"isOk": False, "note": "none", "code": "1234"}
    # Text that was recorded for a bool counts as its model reads it.
    assert _said(_told(b'{"isOk":"no"}'), _flow())["isOk"] is False


@pytest.mark.parametrize("code", ["1234", SecretStr("1234")])
def test_default_gives_exactly_what_an_event_with_it_would_give(code: Any) -> None:
    """Its secret, too, which no representation of the shape shows."""
    flow = _flow(on_expiry=Default({"isOk": False, "code": code}))
    expired = after_the_end(waiting(flow))
    assert _said(expired, flow) == _said(_told(BODY), _flow())
    assert "1234" not in repr(flow.shape)


class _Validated(BaseModel):
    """A model with a validator of its own, and with what JSON has no type for."""

    day: date | None
    amount: Decimal
    is_ok: bool

    @model_validator(mode="before")
    @classmethod
    def as_it_is(cls, content: Any) -> Any:
        """Look at the body before it is read."""
        return content


VALIDATED = {"day": "2026-11-21", "amount": "1.5", "is_ok": True}


@pytest.mark.parametrize("amount", ["1.5", 1.5])
def test_validator_of_a_models_own_leaves_its_dates_texts(amount: Any) -> None:
    """Behind it, a date has to be a date to be one strictly, which no body could hold."""
    check_body(_Validated, json.dumps(VALIDATED | {"amount": amount}).encode())


@pytest.mark.parametrize("wrong", [{"is_ok": "no"}, {"day": 0}, {"amount": True}], ids=str)
def test_bodies_stay_strict_behind_a_validator(wrong: dict[str, Any]) -> None:
    """What a model would make something else of is refused there, too."""
    with pytest.raises(ValidationError):
        check_body(_Validated, json.dumps(VALIDATED | wrong).encode())


class _Stricter(Signed):
    """The model after a deployment: it has by now a field which no recorded event has."""

    by: str


class _Broken(Signed):
    """A model with a defect."""

    def model_post_init(self, _: object) -> None:
        """Fail."""
        raise KeyError("by")


@pytest.mark.parametrize(
    ("model", "fault"),
    [(_Stricter, "by: Field required"), (_Broken, "KeyError: 'by'")],
    ids=["field", "defect"],
)
def test_task_whose_event_fits_no_more_is_parked(model: type[BaseModel], fault: str) -> None:
    """Until the right definition is there: what was told can't be told again."""
    look = Definitions(Registry((_flow(model),), {}), _told(BODY)).look_at(SEND)
    assert isinstance(look, CannotStart)
    unfit = "the event of step 'approve' does not fit version 1 of 'parcels' as it is deployed here"
    assert (look.reason, look.parks) == (f"{unfit}: {fault}", True)


class _Codes(RootModel[list[SecretStr]]):
    """A model that is a list."""


@dataclass(frozen=True)
class _Key:
    code: SecretStr


@pydantic.dataclasses.dataclass(frozen=True)
class _Door:
    code: Annotated[SecretStr, Field(alias="doorCode")]


class _Safe(BaseModel, extra="allow"):
    __pydantic_extra__: dict[str, SecretStr]

    codes: _Codes
    keys: tuple[_Key, ...]
    door: _Door
    by_day: dict[date, SecretStr]
    tags: frozenset[str]
    either: set[SecretStr]


def test_json_of_a_model_has_its_secrets_and_is_the_same_in_every_process() -> None:
    """Wherever they are; what a set holds is in order."""
    body = (
        b'{"codes":["a"],"keys":[{"code":"b"}],"by_day":{"2026-11-21":"c"},"tags":["y","z","x"],'
        b'"either":["f","e"],"door":{"doorCode":"d"},"more":"m"}'
    )
    assert read_body(_Safe, body) == {
        "codes": ["a"],
        "keys": [{"code": "b"}],
        "by_day": {"2026-11-21": "c"},
        "tags": ["x", "y", "z"],
        "either": ["e", "f"],
        "door": {"doorCode": "d"},
        "more": "m",
    }


def test_json_of_what_a_model_writes_in_its_own_way_stays_as_that() -> None:
    """Nothing is taken apart that is not as it is held."""

    class Own(BaseModel):
        parts: Annotated[list[str], Field(min_length=1)]

        @model_serializer
        def written(self) -> dict[str, Any]:
            return {"parts": {"first": self.parts[0]}, "more": []}

    assert plain_json(Own(parts=["a"])) == {"parts": {"first": "a"}, "more": []}


class _Sealed(Signed):
    """Its schema has a defect of its own."""

    model_config = ConfigDict(json_schema_extra=lambda schema: schema.pop("seal"))


class _Checked(Signed):
    """Has a field of which there is no schema."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    seal: range | None = None


def test_model_without_a_schema_has_none() -> None:
    """Whatever says so: who may tell the event sees that it waits all the same."""
    assert schema_of(Signed) == Signed.model_json_schema()
    assert [schema_of(_Sealed), schema_of(_Checked)] == [None, None]


PARCEL = Parcel(weight=3)


def _keys(find_by: Callable[[Any], Iterable[Any]], steps: int = 1) -> tuple[str, ...]:
    made = workflow(*(step(f"s{number}") for number in range(steps)), find_by=find_by)
    return search_keys(made, PARCEL, steps)


def test_order_of_a_workflow_with_find_by_has_its_keys() -> None:
    """Of the payload; another workflow's order has none."""
    found = order(workflow(step("pick"), find_by=lambda parcel: [f"weight {parcel.weight}"]), weight=7)
    assert found.search_keys == (search_key("weight 7"),)
    assert order(DIAMOND).search_keys == ()


@pytest.mark.parametrize("typed", ["Ada@Example.com", " ada@example.COM ", "ａda@example.com"])  # noqa: RUF001
def test_text_is_the_same_however_it_is_typed(typed: str) -> None:
    """Capital letters, spaces around it and wide letters do not matter."""
    assert search_key(typed) == search_key("ada@example.com")
    assert search_key("ada@example.org") != search_key("ada@example.com")


def test_same_text_twice_is_one_key_and_none_is_none() -> None:
    """An optional field of the payload may be given as it is."""
    assert _keys(lambda _: ["Ada", "ada ", None, "", " "]) == (search_key("ada"),)
    # Beginning of a long text counts.
    assert _keys(lambda _: [" " + "x" * 5_000]) == (search_key("x" * 100),)
    assert search_key("x" * 99) != search_key("x" * 100)


def test_too_many_texts_are_refused() -> None:
    """Each is a row; steps and keys share a transaction's room."""
    assert len(_keys(lambda _: map(str, range(MAX_KEYS)))) == MAX_KEYS
    with pytest.raises(UnfitOrderError, match="found by 9 texts; at most 8 are possible"):
        _keys(lambda _: map(str, range(MAX_KEYS + 1)))
    assert len(_keys(lambda _: ["a", "b"], steps=88)) == 2
    with pytest.raises(UnfitOrderError, match=r"^Its 89 steps and items and the 2 texts .* than 90 together"):
        _keys(lambda _: ["a", "b"], steps=89)


def test_items_and_texts_share_a_transactions_room() -> None:
    """Each item is a step, and has a row."""
    found = workflow(each("call"), find_by=lambda _: ["a", "b"])
    assert len(order(found, weight=88).search_keys) == 2
    with pytest.raises(UnfitOrderError, match="Its 89 steps and items and the 2 texts"):
        order(found, weight=89)


@pytest.mark.parametrize("texts", [lambda parcel: [parcel.weight], lambda parcel: parcel.nothing])
def test_order_whose_texts_can_t_be_told_is_refused(texts: Callable[[Any], Iterable[Any]]) -> None:
    """Without what the function said, which is the developer's to see."""
    with pytest.raises(UnfitOrderError, match=r"^The texts by which it is found can't be told\.$"):
        _keys(texts)


def test_one_text_in_the_place_of_a_list_is_refused() -> None:
    """Each of its letters would be a text; the developer is told in the log."""
    with pytest.raises(UnfitOrderError) as refusal:
        _keys(lambda _: "Ada")
    assert str(refusal.value.__cause__) == "find_by gives a list of texts, not a text"
    # Texts without an end are refused.
    with pytest.raises(UnfitOrderError, match="found by 90 texts"):
        _keys(lambda _: map(str, count()))


def test_find_by_must_be_a_function() -> None:
    """Told when it is defined."""
    with pytest.raises(DefinitionError, match="find_by must be a function of the payload, not 'email'"):
        workflow(step("pick"), find_by="email")  # type: ignore[arg-type]

    # Find by may yield.
    def texts(parcel: Any) -> Iterable[str]:
        yield f"{parcel.weight} kg"

    assert len(_keys(texts)) == 1
