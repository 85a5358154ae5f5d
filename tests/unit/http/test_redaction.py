"""Secret fields are in no shown value, and no fault names a place below one."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import InitVar, dataclass
from decimal import Decimal
from enum import IntFlag
from ipaddress import IPv4Network, IPv6Network
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict, Union

import pytest
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    Json,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    RootModel,
    Secret,
    SecretBytes,
    SecretStr,
    ValidationError,
    WithJsonSchema,
    WrapValidator,
    create_model,
    field_serializer,
    field_validator,
)
from pydantic_core import core_schema

from functions.core.json_values import PLAIN_NUMBER
from functions.http.redaction import REDACTED, NotShownError, has_secrets, public_faults, redacted
from tests.unit.http import top_down

CANARY = "c4n4ry"


class Login(BaseModel):
    """A secret, and a field that is not secret."""

    model_config = ConfigDict(extra="ignore")

    password: SecretStr
    user: str = ""


class Tree(BaseModel):
    """A recursive model."""

    secret: SecretStr | None = None
    below: list[Tree] = []


class Pin(Secret[int]):
    """A type of secrets."""


class ByKey(BaseModel):
    """A member of a union with a discriminator."""

    kind: Literal["key"]
    key: SecretBytes


class ByLogin(Login):
    """Another one."""

    kind: Literal["login"]


class Generic[ContentT](BaseModel):
    """A model of any content."""

    content: ContentT


class Keys(TypedDict):
    """A typed dict with a secret."""

    key: NotRequired[SecretStr]


class Pair(NamedTuple):
    """A named tuple with a secret."""

    user: str
    key: SecretStr


@dataclass(slots=True)
class Account:
    """A dataclass with a secret."""

    user: str
    key: SecretStr


class Unwrapping(BaseModel):
    """A validator replaces the secret by its value."""

    card: SecretStr

    @field_validator("card")
    @classmethod
    def _digits(cls, card: SecretStr) -> Any:
        return card.get_secret_value()


class CardNumber(SecretStr):
    """A secret with a schema of its own."""

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        """Return a schema without the class."""
        return core_schema.no_info_after_validator_function(cls, handler.generate_schema(str))


_BY_FUNCTION = GetPydanticSchema(lambda *_: core_schema.no_info_plain_validator_function(SecretStr))


class Rights(IntFlag):
    """Flags."""

    READ = 1
    WRITE = 2


class Plain(BaseModel):
    """A model without a secret field."""

    user: str


class Revealing(BaseModel):
    """A model whose serializer returns the secret, as pydantic's documentation shows."""

    password: SecretStr

    @field_serializer("password", when_used="json")
    def reveal(self, password: SecretStr) -> str:
        """Return the secret."""
        return password.get_secret_value()


type Names[NameT] = list[NameT]
type Nested = list[Nested] | SecretStr

LOGIN = {"password": CANARY, "user": "ann"}
SHOWN = {"password": REDACTED, "user": "ann"}


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        (SecretStr, CANARY, REDACTED),
        (SecretStr, "", REDACTED),
        (SecretBytes, CANARY, REDACTED),
        (Secret[int], 730_214, REDACTED),
        (Pin, 730_214, REDACTED),
        (Annotated[SecretStr, Field(max_length=9), WithJsonSchema({"type": "string"})], CANARY, REDACTED),
        (Annotated[SecretStr, PlainSerializer(SecretStr.get_secret_value)], CANARY, REDACTED),
        (Revealing, {"password": CANARY}, {"password": REDACTED}),
        (SecretStr | None, CANARY, REDACTED),
        (SecretStr | None, None, None),
        (Login, LOGIN | {"unknown": CANARY}, SHOWN),
        (Login | None, {"password": CANARY}, {"password": REDACTED}),
        (Secret[Login], LOGIN, REDACTED),
        (list[Login], [LOGIN], [SHOWN]),
        (tuple[int, Login], [1, LOGIN], [1, SHOWN]),
        (dict[str, SecretStr], {"a": CANARY}, {"a": REDACTED}),
        (dict[str, Login], {"a": LOGIN}, {"a": SHOWN}),
        (dict[SecretStr, int], {CANARY: 1}, {REDACTED: 1}),
        (
            Annotated[ByKey | ByLogin, Field(discriminator="kind")],
            {"kind": "key", "key": CANARY},
            {"kind": "key", "key": REDACTED},
        ),
        (Annotated[SecretStr, AfterValidator(SecretStr.get_secret_value)], CANARY, REDACTED),
        (Annotated[SecretStr, PlainValidator(str)], CANARY, REDACTED),
        (Annotated[SecretStr, WrapValidator(lambda value, _: value)], CANARY, REDACTED),
        (Unwrapping, {"card": CANARY}, {"card": REDACTED}),
        (CardNumber, CANARY, REDACTED),
        (Annotated[SecretStr, _BY_FUNCTION], CANARY, REDACTED),
        (Tree, {"below": [{"secret": CANARY}]}, {"below": [{"secret": REDACTED}]}),
        (RootModel[list[Login]], [LOGIN], [SHOWN]),
        (Generic[SecretStr], {"content": CANARY}, {"content": REDACTED}),
        (Names[SecretStr], [CANARY], [REDACTED]),
        (Json[Login], f'{{"password": "{CANARY}"}}', {"password": REDACTED}),
    ],
)
def test_secret_fields_are_redacted(annotation: Any, value: Any, shown: Any) -> None:
    """In any type, with and without another secret field."""
    text = json.dumps({"field": value, "beside": "x"})
    for beside in (SecretStr, str):
        model = create_model("Other", field=(annotation, ...), beside=(beside, ...))
        assert has_secrets(model)
        assert redacted(model, text) == {"field": shown, "beside": "x" if beside is str else REDACTED}


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (IPv4Network | IPv6Network, "::/0"),
        (Rights, 3),
        (Annotated[Decimal, PLAIN_NUMBER], "4.90"),
        (Plain, {"user": "ann"}),
    ],
)
def test_values_beside_a_secret_are_shown_as_they_were_sent(annotation: Any, value: object) -> None:
    """A network has as many addresses as a caller likes, and a flag contains itself."""
    model = create_model("Other", field=(annotation, ...), beside=(SecretStr, ...))
    assert redacted(model, json.dumps({"field": value, "beside": CANARY})) == {
        "field": value,
        "beside": REDACTED,
    }


class _Bounded[CardT: top_down.Card](BaseModel):
    card: CardT


class _Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SecretStr] = Field(init=False)


class _Revealing(BaseModel):
    number: SecretStr

    @field_serializer("number")
    def _reveal(self, number: SecretStr) -> str:
        return number.get_secret_value()


@dataclass
class _Init:
    pin: InitVar[SecretStr]


class _Open(TypedDict):
    __pydantic_config__ = ConfigDict(extra="allow")  # type: ignore[misc]
    key: SecretStr


@dataclass
class _Default:
    key: SecretStr = CANARY  # type: ignore[assignment]


type Number = SecretStr
type Logins = list["Login"]
type LoginOrNumber = Union["Login", int]  # noqa: UP007 - a quoted name has no operators


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        (top_down.Trip, {"payer": {"card": {"number": CANARY}}}),
        (_Bounded, {"card": {"number": CANARY}}),
        (_Extra, {"pin": CANARY}),
        *(
            (create_model("Payload", field=(annotation, ...)), {"field": sent})
            for annotation, sent in list[tuple[Any, Any]](
                [
                    (NewType("CardNumber", SecretStr), CANARY),
                    (_Init, {"pin": CANARY}),
                    (Nested, [[CANARY]]),
                    (Secret[int] | str, CANARY),
                    (deque[_Revealing], [{"number": CANARY}]),
                    (Iterable[_Revealing], [{"number": CANARY}]),
                    (dict[str, Any] | Login, {"password": CANARY}),
                    (Login | dict[str, Any], {"password": CANARY, "user": 5}),
                    (Login | str, json.dumps({"password": CANARY})),
                    (list[CardNumber], [CANARY]),
                    (list[Annotated[SecretStr, AfterValidator(SecretStr.get_secret_value)]], [CANARY]),
                    (tuple[Number | int, Number | int], [1, CANARY]),
                    (Pair, ["ann", CANARY]),
                    (Account, {"user": "ann", "key": CANARY}),
                    (_Default, {}),
                    (Keys, {"key": CANARY}),
                    (_Open, {"key": "x", "Key": CANARY}),
                    (Logins, [{"password": CANARY}]),
                    (LoginOrNumber, {"password": CANARY}),
                ]
            )
        ),
    ],
)
def test_secret_of_an_unusual_type_is_not_shown(model: type[BaseModel], sent: Any) -> None:
    """Its text is shown without it, or not at all."""
    assert has_secrets(model)
    with suppress(NotShownError):
        assert CANARY not in str(redacted(model, json.dumps(sent)))


class Checked(BaseModel):
    """A model whose validator raises an error of any type, with the value."""

    key: SecretStr

    @field_validator("key")
    @classmethod
    def _check(cls, key: SecretStr) -> SecretStr:
        raise KeyError(key.get_secret_value())


def test_text_that_its_model_rejects_is_not_shown() -> None:
    """A model without secret fields is shown as it was recorded."""
    sent = {"name": "ann", "more": CANARY}
    kind = Literal["a", None]  # noqa: PYI061 - None is a value here
    extra = ConfigDict(extra="allow")
    free = create_model("Free", __config__=extra, kind=(kind, None), value=(JsonValue, None))
    for shown in (Plain, free):
        assert redacted(shown, json.dumps(sent)) == sent
    for model in (Login, Checked):
        with pytest.raises(NotShownError, match="rejects it") as error:
            redacted(model, f'{{"key": "{CANARY}"}}')
        assert CANARY not in str(error.value)


class Card(BaseModel):
    """A payload with secrets of several levels."""

    model_config = ConfigDict(extra="forbid")

    limits: Secret[dict[str, int]] | None = None
    pins: dict[SecretStr, int] = {}
    login: Login | None = None
    lines: Annotated[list[Plain], Field(alias="Lines")] = []


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"limits": {CANARY: "x"}}, ("limits",)),
        ({"pins": {CANARY: "x"}}, ("pins",)),
        ({"pins": {CANARY: [{}]}}, ("pins",)),
        ({"login": {"user": "ann"}}, ("login", "password")),
        ({"Lines": [{"user": "ann"}, {"user": 7}]}, ("Lines", 1, "user")),
        ({"unknown": 1}, ("unknown",)),
    ],
)
def test_fault_names_no_place_below_a_secret_field(sent: Any, place: tuple[object, ...]) -> None:
    """The name of a field is known to everybody; other places are named exactly."""
    [fault] = _faults(Card, sent)
    assert fault["loc"] == ("order", *place)
    assert CANARY not in str(fault)
    assert ("below" in fault["msg"]) is (place in {("limits",), ("pins",)})


def test_faults_of_other_models_have_their_places() -> None:
    """A whole value may be secret; without secret fields, each name is shown."""
    pins = RootModel[dict[SecretStr, int]]
    assert [fault["loc"] for fault in _faults(pins, {CANARY: "x"})] == [("order",)]
    assert [fault["loc"] for fault in _faults(RootModel[dict[str, int]], {"a": "x"})] == [("order", "a")]


def _faults(model: type[BaseModel], sent: Any) -> list[dict[str, Any]]:
    with pytest.raises(ValidationError) as error:
        model.model_validate_json(json.dumps(sent))
    return public_faults(model, "order", error.value)
