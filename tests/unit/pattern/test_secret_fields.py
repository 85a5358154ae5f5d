"""Secret fields are hidden wherever they stand, and what they hold wherever it turns up."""

from __future__ import annotations

import time
from dataclasses import dataclass
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

from functions.pattern.hiding import HIDDEN, Secrets
from functions.pattern.secret_fields import SecretFields, Shown, secret_fields

CANARY = "c4n4ry"
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


class ByKind(BaseModel):
    """One of a union that is told apart."""

    kind: Literal["key"]
    key: Marked


def _login_of(given: Any) -> Any:
    return {"password": given} if isinstance(given, str) else given


LOGIN = {"password": CANARY, "user": "ann"}
SHOWN = {"password": HIDDEN, "user": "ann"}


@pytest.mark.parametrize(
    ("annotation", "content", "shown"),
    [
        (SecretStr, CANARY, HIDDEN),
        (SecretBytes, CANARY, HIDDEN),
        (Annotated[Secret[int], Field(json_schema_extra={"writeOnly": True})], 730_214, HIDDEN),
        (Marked, CANARY, HIDDEN),
        (SkipJsonSchema[SecretStr], CANARY, HIDDEN),
        (list[Annotated[SecretStr, WithJsonSchema({"type": "string"})]], [CANARY], [HIDDEN]),
        (Annotated[Login, WithJsonSchema({"type": "object"})], LOGIN, SHOWN),
        (Annotated[Strange, WithJsonSchema({"type": "string"})], "a", "a"),
        (SecretStr | None, CANARY, HIDDEN),
        (SecretStr | None, None, None),
        (Annotated[bool, Field(json_schema_extra={"writeOnly": True})], True, HIDDEN),
        (Login, LOGIN, SHOWN),
        (Login | None, LOGIN, SHOWN),
        (Annotated[Login, Field(json_schema_extra={"writeOnly": True})], LOGIN, HIDDEN),
        (list[Login], [LOGIN], [SHOWN]),
        (list[SecretStr], [CANARY], [HIDDEN]),
        (tuple[int, Login], [1, LOGIN], [1, SHOWN]),
        (dict[str, SecretStr], {"a": CANARY}, {"a": HIDDEN}),
        (dict[str, Login], {"a": LOGIN}, {"a": SHOWN}),
        (dict[Annotated[str, Field(pattern="^a")], SecretStr], {"a": CANARY}, {"a": HIDDEN}),
        (dict[SecretStr, int], {CANARY: 1}, HIDDEN),
        (
            Annotated[Login | ByKind, Field()],
            {"kind": "key", "key": CANARY},
            {"kind": "key", "key": HIDDEN},
        ),
        (Tree, {"below": [{"secret": CANARY}]}, {"below": [{"secret": HIDDEN}]}),
        (RootModel[list[Login]], [LOGIN], [SHOWN]),
        (Json[Login], f'{{"password": "{CANARY}"}}', HIDDEN),
        (Json[dict[Annotated[str, Field(pattern="^a")], list[tuple[Tree]]]], CANARY, HIDDEN),
        (Annotated[Login, BeforeValidator(_login_of)], CANARY, HIDDEN),
        (Annotated[Login, BeforeValidator(_login_of)], [CANARY], [HIDDEN]),
        (Any, {"a": [{"b": 1}]}, {"a": [{"b": 1}]}),
        (dict[str, Any], {"a": [CANARY]}, {"a": [CANARY]}),
    ],
)
def test_secret_fields_are_hidden(annotation: Any, content: Any, shown: Any) -> None:
    """Whatever they stand in, beside what is none."""

    class Other(BaseModel):
        """Has a secret besides, so that the model has one in any case."""

        field: annotation
        beside: SecretStr

    content = {"field": content, "beside": "x"}
    assert SecretFields(Other).hide(content).content == {"field": shown, "beside": HIDDEN}


class Named(BaseModel):
    """Fields that can be sent under other names."""

    model_config = ConfigDict(extra="allow", validate_by_name=True, validate_by_alias=True)

    first: Annotated[SecretStr | None, Field(validation_alias=AliasChoices("one", "uno"))] = None
    second: Annotated[SecretStr | None, Field(validation_alias=AliasPath("two", "deep"))] = None
    third: Annotated[int, Field(alias="three")] = 0


@pytest.mark.parametrize(
    "sent",
    [{"one": CANARY}, {"uno": CANARY}, {"first": CANARY}, {"two": {"deep": CANARY}}, {"extra": CANARY}],
)
def test_secret_is_hidden_under_each_of_its_names(sent: dict[str, Any]) -> None:
    """What the schema does not know could be one; what it knows is shown, by alias and by name."""
    for shown in ({"three": 3}, {"third": 3}):
        hidden = SecretFields(Named).hide(sent | shown)
        assert hidden.content == dict.fromkeys(sent, HIDDEN) | shown
        assert hidden.secrets.values == {CANARY}


class Plain(BaseModel):
    """Has no secret."""

    user: str


def test_model_without_a_secret_hides_nothing() -> None:
    """Not even what it does not know."""
    hidden = secret_fields(Plain).hide({"user": "ann", "more": CANARY})
    assert (hidden.content, hidden.secrets) == ({"user": "ann", "more": CANARY}, Secrets())
    assert secret_fields(Plain) is secret_fields(Plain)


def test_unknown_reference_hides_what_it_stands_for() -> None:
    """A model can bring a schema of its own."""

    class Odd(BaseModel):
        """Refers to nowhere."""

        password: SecretStr
        odd: Annotated[str, Field(json_schema_extra={"anyOf": [{"$ref": "https://example.com/nowhere"}]})]

    assert SecretFields(Odd).hide({"odd": CANARY}).content == {"odd": HIDDEN}


def test_what_a_secret_field_holds_is_a_secret() -> None:
    """All texts and numbers in it, but no names, flags, or empty texts."""

    class All(BaseModel):
        """Is secret as a whole."""

        field: Annotated[Any, Field(json_schema_extra={"writeOnly": True})]

    content = {"field": {"name": [" abcd ", 7, 1.5, True, None, ""]}}
    assert SecretFields(All).hide(content).secrets.values == {"abcd", "7", "1.5"}


@dataclass(frozen=True)
class Card:
    """Is no model, and changes its secret."""

    number: Annotated[SecretStr, BeforeValidator(lambda text: text.replace(" ", ""))]


def test_what_a_dataclass_makes_of_its_secret_is_a_secret() -> None:
    """As of a model: it is what requests hold."""

    class Payer(BaseModel):
        card: Card

    payer = Payer.model_validate({"card": {"number": "4111 1111"}})
    assert secret_fields(Payer).read(payer) == Secrets(frozenset({"41111111"}))


def test_long_lists_do_not_block_the_process() -> None:
    """What an item is meant by is looked at once, not for each of them."""

    class Many(BaseModel):
        items: list[Login | ByKind | Tree]
        pair: tuple[int, SecretStr]

    content = {"items": [{"user": "anna"}] * 40_000, "pair": [1, CANARY]}
    begun = time.process_time()
    assert SecretFields(Many).hide(content) == Shown(
        content | {"pair": [1, HIDDEN]}, Secrets(frozenset({CANARY}))
    )
    assert time.process_time() - begun < 1.5
