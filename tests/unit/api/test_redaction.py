"""Secret fields are in no shown value, and no fault names a place below one."""

from __future__ import annotations

import json
import time
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
    ValidationError,
    WithJsonSchema,
    create_model,
)
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreSchema, core_schema

from functions.http.redaction import REDACTED, NotShownError, has_secrets, public_faults, redacted
from tests.unit.api.scene import WithoutSchema

CANARY = "c4n4ry"
Marked = Annotated[str, Field(json_schema_extra={"writeOnly": True})]


class Login(BaseModel):
    """A secret, and a field that is not secret."""

    password: SecretStr
    user: str = ""


class Strange:
    """A type without a JSON schema."""

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: Any) -> CoreSchema:
        return core_schema.is_instance_schema(cls)


class Tree(BaseModel):
    """A recursive model."""

    secret: Marked | None = None
    below: list[Tree] = []


class Pin(Secret[int]):
    """A type of secrets."""


class ByKind(BaseModel):
    """A member of a union with a discriminator."""

    kind: Literal["key"]
    key: Marked


def _login_of(given: Any) -> Any:
    return {"password": given} if isinstance(given, str) else given


LOGIN = {"password": CANARY, "user": "ann"}
SHOWN = {"password": REDACTED, "user": "ann"}


@pytest.mark.parametrize(
    ("annotation", "value", "shown"),
    [
        (SecretStr, CANARY, REDACTED),
        (SecretBytes, CANARY, REDACTED),
        (Secret[int], 730_214, REDACTED),
        (Pin, 730_214, REDACTED),
        (Annotated[SecretStr, Field(json_schema_extra=dict.clear)], CANARY, REDACTED),
        (Marked, CANARY, REDACTED),
        (SkipJsonSchema[SecretStr], CANARY, REDACTED),
        (list[Annotated[SecretStr, WithJsonSchema({"type": "string"})]], [CANARY], [REDACTED]),
        (Annotated[Login, WithJsonSchema({"type": "object"})], LOGIN, SHOWN),
        (Annotated[Strange, WithJsonSchema({"type": "string"})], "a", "a"),
        (SecretStr | None, CANARY, REDACTED),
        (SecretStr | None, None, None),
        (Annotated[bool, Field(json_schema_extra={"writeOnly": True})], True, REDACTED),
        (Login, LOGIN, SHOWN),
        (Login | None, LOGIN, SHOWN),
        (Annotated[Login, Field(json_schema_extra={"writeOnly": True})], LOGIN, REDACTED),
        (list[Login], [LOGIN], [SHOWN]),
        (tuple[int, Login], [1, LOGIN], [1, SHOWN]),
        (dict[str, SecretStr], {"a": CANARY}, {"a": REDACTED}),
        (dict[str, Login], {"a": LOGIN}, {"a": SHOWN}),
        (dict[Annotated[str, Field(pattern="^a")], SecretStr], {"a": CANARY}, {"a": REDACTED}),
        (dict[SecretStr, int], {CANARY: 1}, REDACTED),
        (
            Annotated[Login | ByKind, Field()],
            {"kind": "key", "key": CANARY},
            {"kind": "key", "key": REDACTED},
        ),
        (Tree, {"below": [{"secret": CANARY}]}, {"below": [{"secret": REDACTED}]}),
        (RootModel[list[Login]], [LOGIN], [SHOWN]),
        (Json[Login], f'{{"password": "{CANARY}"}}', REDACTED),
        (Json[dict[Annotated[str, Field(pattern="^a")], list[tuple[Tree]]]], CANARY, REDACTED),
        (Annotated[Login, BeforeValidator(_login_of)], CANARY, REDACTED),
        (Annotated[Login, BeforeValidator(_login_of)], [CANARY], [REDACTED]),
        (
            Annotated[str, Field(json_schema_extra={"anyOf": [{"$ref": "https://example.com/nowhere"}]})],
            CANARY,
            REDACTED,
        ),
        (Any, {"a": [{"b": 1}]}, {"a": [{"b": 1}]}),
        (dict[str, Any], {"a": [CANARY]}, {"a": [CANARY]}),
    ],
)
def test_secret_fields_are_redacted(annotation: Any, value: Any, shown: Any) -> None:
    """In any type, in a model that has another secret field, too."""
    model = create_model("Other", field=(annotation, ...), beside=(SecretStr, ...))
    text = json.dumps({"field": value, "beside": "x"})
    assert redacted(model, text) == {"field": shown, "beside": REDACTED}


@pytest.mark.parametrize(
    "names",
    [SecretStr, Secret[str], SecretStr | int, Annotated[int, Field(json_schema_extra={"writeOnly": True})]],
)
def test_secret_names_of_members_are_redacted(names: Any) -> None:
    """Pydantic leaves some types of names out of the JSON schema of a dict."""
    for model in (RootModel[dict[names, int]], create_model("Pins", pins=(dict[names, int], ...))):
        assert has_secrets(model)
    assert redacted(RootModel[dict[names, int]], '{"4711": 1}') == REDACTED
    assert redacted(model, '{"pins": {"4711": 1}}') == {"pins": REDACTED}


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
def test_secret_is_redacted_under_each_of_its_names(sent: dict[str, Any]) -> None:
    """A member that the schema does not name may be secret; one that it names is shown."""
    for shown in ({"three": 3}, {"third": 3}):
        assert redacted(Named, json.dumps(sent | shown)) == dict.fromkeys(sent, REDACTED) | shown


class Plain(BaseModel):
    """A model without a secret field."""

    user: str


def test_model_without_secret_is_shown_whole_and_one_without_schema_not_at_all() -> None:
    """A schema is necessary: only the schema names the secret fields."""
    assert redacted(Plain, f'{{"user": "ann", "more": "{CANARY}"}}') == {"user": "ann", "more": CANARY}
    assert not has_secrets(Plain)
    for show in (has_secrets, lambda model: redacted(model, "{}")):
        with pytest.raises(NotShownError, match="its model has no JSON schema"):
            show(WithoutSchema)


def test_long_lists_do_not_block_the_process() -> None:
    """The schemas of an item are found once for all items."""
    model = create_model("Many", items=(list[Login | ByKind | Tree], ...), pair=(tuple[int, SecretStr], ...))
    value = {"items": [{"user": "anna"}] * 40_000, "pair": [1, CANARY]}
    text, began = json.dumps(value), time.process_time()
    assert redacted(model, text) == value | {"pair": [1, REDACTED]}
    assert time.process_time() - began < 1.5


class Card(BaseModel):
    """A payload with secrets of several levels."""

    model_config = ConfigDict(extra="forbid")

    limits: Secret[dict[str, int]] | None = None
    pins: dict[SecretStr, int] = {}
    login: Login | None = None
    lines: list[Plain] = []


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ({"limits": {CANARY: "x"}}, ("limits",)),
        ({"pins": {CANARY: "x"}}, ("pins",)),
        ({"pins": {CANARY: [{}]}}, ("pins",)),
        ({"login": {"user": "ann"}}, ("login", "password")),
        ({"lines": [{"user": "ann"}, {"user": 7}]}, ("lines", 1, "user")),
        ({"unknown": 1}, ("unknown",)),
    ],
)
def test_fault_names_no_place_below_a_secret_field(sent: Any, place: tuple[object, ...]) -> None:
    """The name of a secret field itself is known to everybody; other places are named exactly."""
    [fault] = _faults(Card, sent)
    assert fault["loc"] == ("order", *place)
    assert CANARY not in str(fault)


def test_faults_of_a_whole_secret_and_of_a_model_without_schema_have_no_place() -> None:
    """A model without JSON schema may have a secret in any place."""
    pins = RootModel[dict[SecretStr, int]]
    assert [fault["loc"] for fault in _faults(pins, {CANARY: "x"})] == [("order",)]
    assert {fault["loc"] for fault in _faults(WithoutSchema, {"text": 1})} == {("order",)}


def _faults(model: type[BaseModel], sent: Any) -> list[dict[str, Any]]:
    with pytest.raises(ValidationError) as error:
        model.model_validate_json(json.dumps(sent))
    return public_faults(model, "order", error.value)
