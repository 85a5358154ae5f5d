"""Redaction: recorded texts without the fields that their models declare as secret.

A field is secret if its type contains pydantic's `SecretStr`, `SecretBytes` or `Secret`. A text of a model
without such a field is shown as it was recorded. Any other text is validated by its model, and only the
fields of the model are shown. It is not shown if a secret type is in a part of the model whose value may be
of another type, such as a union: a secret could not be told from another value then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, is_dataclass
from functools import cache
from itertools import takewhile
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic_core import from_json, to_jsonable_python

from functions.core.definition.workflow_definition import Workflow
from functions.http.problems import faults_in

#: Replaces a secret value.
REDACTED = "(hidden)"

_SECRETS = (SecretStr, SecretBytes, Secret)
#: Parts of a core schema whose value has the types of their own parts. Around a model, a validator may also
#: run after it, and a union may choose by a tag: the value is of the model's class.
_TRANSPARENT = frozenset(
    {"model", "model-fields", "model-field", "definitions", "default", "nullable", "function-before"}
    | {"list", "tuple", "set", "frozenset", "dict", "json", "lax-or-strict", "json-or-python"}
)
_AROUND_MODELS = frozenset({"function-after", "tagged-union"})
_WRAPPERS = frozenset({"definition-ref", "function-before", "function-after"})
#: Attributes of annotations that name other ones, in aliases, new types, generics and type variables.
_NAMED = ("__value__", "__supertype__", "__origin__", "__bound__")


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts of a model: the names under which its fields may be sent, and its secret fields.

    `obstacle` is the part of a model with secret fields for which its values are not shown.
    """

    has_secrets: bool = True
    obstacle: str | None = "type that cannot be read"
    names: frozenset[str] = frozenset()


class NotShownError(Exception):
    """A value cannot be shown. The text says why."""


def redacted(model: type[BaseModel], text: str) -> Any:
    """Return the value of a JSON text that was sent as `model`, without its secret fields.

    Raises `NotShownError` for a text that is no JSON, and if the model has secret fields and rejects it.
    """
    facts = _facts_of(model)
    if facts.has_secrets and facts.obstacle is not None:
        raise NotShownError(f"a secret type of its model is in a {facts.obstacle}")
    try:
        return _without_secrets(model.model_validate_json(text)) if facts.has_secrets else from_json(text)
    except Exception:  # noqa: BLE001 - a validator of the model may raise anything, and its text has the value
        reason = "its model has secret fields and rejects it" if facts.has_secrets else "it is no valid JSON"
        raise NotShownError(reason) from None


def _without_secrets(value: object) -> Any:
    """Return a value as JSON. Only parts without secrets are serialized by functions of their types."""
    match value:
        case SecretStr() | SecretBytes() | Secret():
            return REDACTED
        case BaseModel():
            hidden, members = _secret_fields(type(value)), dict[str, Any]()
            for name in (name for name in type(value).model_fields if name in value.model_fields_set):
                member = getattr(value, name)
                is_hidden = name in hidden and member is not None
                members[name] = REDACTED if is_hidden else _without_secrets(member)
            return members["root"] if isinstance(value, RootModel) else members
        case Mapping():
            return {str(_without_secrets(name)): _without_secrets(each) for name, each in value.items()}
        case list() | tuple() | set() | frozenset() | deque():
            return [_without_secrets(each) for each in value]
        case _:
            return to_jsonable_python(value)


def printable_text(text: str) -> tuple[str, bool]:
    """Return the first 64 Ki characters, unprintable ones replaced, and whether there are more."""
    shown = text[: 64 * 1024]
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in shown), shown != text


def has_secrets(model: type[BaseModel] | None) -> bool:
    """Return whether a model has a secret field."""
    return model is not None and _facts_of(model).has_secrets


def workflow_has_secrets(workflow: Workflow[Any]) -> bool:
    """Return whether the payload, an event or a result of a workflow has a secret field."""
    models = (workflow.payload, *(step.model for step in workflow.steps.values()))
    return any(has_secrets(model) for model in models)


def public_faults(model: type[BaseModel], source: str, error: ValidationError) -> list[dict[str, Any]]:
    """Return the faults of a value of `model` in `source`.

    If the model has secret fields, the place of a fault ends before the first name that is no field: a
    dict may have secret names.
    """
    faults, facts = faults_in(source, error), _facts_of(model)
    return [_public(fault, facts.names) for fault in faults] if facts.has_secrets else faults


def _public(fault: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    source, *place = fault["loc"]
    is_extra = fault["type"] == "extra_forbidden" and len(place) == 1
    known = names | ({place[0]} if is_extra else set())
    shown = [*takewhile(lambda part: isinstance(part, int) or part in known, place)]
    if shown == place:
        return fault
    return {"type": "secret", "loc": (source, *shown), "msg": "A value below this place is not valid"}


@cache
def _facts_of(model: type[BaseModel]) -> _Facts:
    """Return the facts of a model, by its core schema and its annotations.

    Forward references are resolved in the schema; a type with a schema of its own is in the annotations only.
    """
    try:
        model.model_rebuild()
        schema = model.__pydantic_core_schema__
        is_annotated = _is_annotated(model, set())
    except Exception:  # noqa: BLE001 - a type of the model may raise anything
        return _Facts()
    nodes = {id(node): node for node in _nodes(schema)}
    names = frozenset(name for node in nodes.values() for name in _names_in(node))
    parts = _Parts({str(node["ref"]): node for node in nodes.values() if "ref" in node})
    if not parts.has_secret(schema):
        return _Facts(is_annotated, "type with a schema of its own", names)
    return _Facts(True, parts.obstacle(schema), names)


def _nodes(schema: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a core schema."""
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, dict):
            yield part
        waiting += _members(part)


def _members(part: Any) -> list[Any]:
    if isinstance(part, list | tuple):
        return list(part)
    if not isinstance(part, dict) or _is_secret(part):
        return []
    if part.get("type") == "model" and part["schema"].get("type") == "model-fields":
        hidden, schema = _secret_fields(part["cls"]), part["schema"]
        fields = [field for name, field in schema["fields"].items() if name not in hidden]
        return [*fields, schema.get("extras_schema")]
    if part.get("type") == "json-or-python":
        return [part["json_schema"]]
    return [each for name, each in part.items() if name not in {"metadata", "serialization"}]


class _Parts:
    """The parts of one core schema; `by_ref` are those that others refer to."""

    def __init__(self, by_ref: Mapping[str, Mapping[str, Any]]) -> None:
        self._by_ref = by_ref

    def has_secret(self, part: Any) -> bool:
        """Return whether a part contains a secret type, also by reference."""
        return any(_is_secret(each) or _is_secret_model(each) for each in self._all(part))

    def obstacle(self, schema: Any) -> str | None:
        """Return a part that contains a secret type and may have a value of another type."""
        for part in self._all(schema):
            kind = part.get("type")
            if kind is None or kind in _TRANSPARENT or _is_secret(part) or not self.has_secret(part):
                continue
            if not (kind in _AROUND_MODELS and all(map(self._is_model, _choices(part)))):
                return str(kind)
        return None

    def _is_model(self, part: Any) -> bool:
        while isinstance(part, dict) and part.get("type") in _WRAPPERS:
            part = self._by_ref.get(part["schema_ref"]) if "schema_ref" in part else part["schema"]
        return isinstance(part, dict) and part.get("type") == "model"

    def _all(self, part: Any) -> Iterator[Mapping[str, Any]]:
        """Yield a part and the parts in it, those that it refers to in the place of the references."""
        waiting, seen = [part], set[int]()
        while waiting:
            part = waiting.pop()
            if isinstance(part, dict) and part.get("type") == "definition-ref":
                part = self._by_ref.get(part["schema_ref"], part)
            if id(part) in seen:
                continue
            seen.add(id(part))
            if isinstance(part, dict):
                yield part
            waiting += _members(part)


def _choices(part: Mapping[str, Any]) -> list[Any]:
    choices = part.get("choices", [part.get("schema")])
    return list(choices.values()) if isinstance(choices, dict) else list(choices)


def _is_annotated(annotation: Any, seen: set[int]) -> bool:
    """Return whether an annotation contains a secret type: in its arguments, fields and names."""
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    if _is_secret_type(annotation):
        return True
    inner = [*get_args(annotation)]
    inner += (getattr(annotation, name, None) for name in _NAMED)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        inner += (field.annotation for field in annotation.model_fields.values())
    elif is_dataclass(annotation) or is_typeddict(annotation) or hasattr(annotation, "_fields"):
        inner += get_type_hints(annotation).values()
    return any(_is_annotated(each, seen) for each in inner)


@cache
def _secret_fields(model: type[BaseModel]) -> frozenset[str]:
    """Return the fields whose type is a secret one, or None. A validator may replace their values."""
    types = {name: _without_none(field.annotation) for name, field in model.model_fields.items()}
    return frozenset(name for name, each in types.items() if _is_secret_type(get_origin(each) or each))


def _without_none(annotation: Any) -> Any:
    others = [each for each in get_args(annotation) if each is not NoneType]
    is_optional = get_origin(annotation) in {Union, UnionType} and len(others) == 1
    return others[0] if is_optional else annotation


def _is_secret_model(node: Mapping[str, Any]) -> bool:
    return node.get("type") == "model" and bool(_secret_fields(node["cls"]))


def _is_secret_type(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, _SECRETS)


def _serializer(node: Mapping[str, Any]) -> Any:
    serialization = node.get("serialization")
    return serialization.get("function") if isinstance(serialization, dict) else None


def _is_secret(node: Any) -> bool:
    """Return whether a part is of a secret type: by its class, or by the serializer of these types."""
    if not isinstance(node, dict):
        return False
    serializer = _serializer(node)
    return _is_secret_type(node.get("cls")) or any(serializer is each for each in _SERIALIZERS)


def _names_in(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names and aliases of the fields of a part."""
    found = (node["schema"] if node.get("type") == "model" else node).get("fields", ())
    if not isinstance(found, dict):
        found = {each["name"]: each for each in found if isinstance(each, dict)}
    for name, field in found.items():
        yield name
        alias = field.get("validation_alias")
        yield from [alias] if isinstance(alias, str) else (str(path[0]) for path in alias or ())


_ADAPTERS = (TypeAdapter(SecretStr), TypeAdapter(SecretBytes), TypeAdapter(Secret[str]))
#: The serializers of secret types. A serializer of an author may have no hash, so they are in no set.
_SERIALIZERS: list[Any] = []
_SERIALIZERS += [
    _serializer(node) for adapter in _ADAPTERS for node in _nodes(adapter.core_schema) if _serializer(node)
]
