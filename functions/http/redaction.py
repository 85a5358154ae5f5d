"""Redaction: recorded texts without the fields that their models declare as secret.

A field is secret if its type contains pydantic's `SecretStr`, `SecretBytes` or `Secret`. A text of a model
without such a field is shown as it was recorded. Any other text is validated by its model, and only the
fields of the model are shown; it is not shown if a secret type is in a union with another type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import takewhile
from typing import Any

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, TypeAdapter, ValidationError
from pydantic_core import from_json, to_jsonable_python

from functions.core.definition.workflow_definition import Workflow
from functions.http.problems import faults_in

#: Replaces a secret value.
REDACTED = "(hidden)"

_SECRETS = (SecretStr, SecretBytes, Secret)
#: Types in a core schema that have fields of their own.
_MODELS = frozenset({"model", "dataclass", "typed-dict"})


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts of a model: the names under which its fields may be sent, and its secret fields.

    A value of an `is_ambiguous` model may be secret although it is no value of a secret type.
    """

    has_secrets: bool = True
    is_ambiguous: bool = True
    names: frozenset[str] = frozenset()


class NotShownError(Exception):
    """A value cannot be shown. The text says why."""


def redacted(model: type[BaseModel], text: str) -> Any:
    """Return the value of a JSON text that was sent as `model`, without its secret fields.

    Raises `NotShownError` for a text that is no JSON, and if the model has secret fields and rejects it.
    """
    facts = _facts_of(model)
    if facts.has_secrets and facts.is_ambiguous:
        raise NotShownError("a secret type of its model is in a union with another type")
    try:
        return _without_secrets(model.model_validate_json(text)) if facts.has_secrets else from_json(text)
    except Exception:  # noqa: BLE001 - a validator of the model may raise anything, and its text has the value
        reason = "its model has secret fields and rejects it" if facts.has_secrets else "it is no valid JSON"
        raise NotShownError(reason) from None


def _without_secrets(value: object) -> Any:
    """Return a value as JSON. A serializer of the model could return a secret, so none is called."""
    match value:
        case SecretStr() | SecretBytes() | Secret():
            return REDACTED
        case BaseModel():
            names = (name for name in type(value).model_fields if name in value.model_fields_set)
            members = {name: _without_secrets(getattr(value, name)) for name in names}
            return members["root"] if isinstance(value, RootModel) else members
        case Mapping():
            return {str(_without_secrets(name)): _without_secrets(each) for name, each in value.items()}
        case _ if is_dataclass(value):
            return {each.name: _without_secrets(getattr(value, each.name)) for each in fields(value)}
        case Iterable() if not isinstance(value, str | bytes):
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
    """Return the facts of a model, by its core schema, in which forward references are resolved."""
    try:
        model.model_rebuild()
    except Exception:  # noqa: BLE001 - a type of the model may raise anything
        return _Facts()
    nodes = list(_nodes(model.__pydantic_core_schema__))
    names = frozenset(name for node in nodes for name in _names_in(node))
    return _Facts(any(map(_is_secret, nodes)), any(map(_is_ambiguous, nodes)), names)


def _nodes(schema: Any, *, is_own: bool = False) -> Iterator[Mapping[str, Any]]:
    """Yield the parts of a core schema, with `is_own` without the fields of models in it."""
    waiting, seen = [schema], set[int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, list | tuple):
            waiting += part
        elif isinstance(part, dict):
            yield part
            if not (_is_secret(part) or (is_own and part.get("type") in _MODELS)):
                waiting += (each for name, each in part.items() if name != "metadata")


def _serializer(node: Mapping[str, Any]) -> Any:
    serialization = node.get("serialization")
    return serialization.get("function") if isinstance(serialization, dict) else None


def _is_secret(node: Mapping[str, Any]) -> bool:
    """Return whether a part is of a secret type: by its class, or by the serializer of these types."""
    kind, serializer = node.get("cls"), _serializer(node)
    is_of_type = isinstance(kind, type) and issubclass(kind, _SECRETS)
    return is_of_type or any(serializer is each for each in _SERIALIZERS)


def _is_ambiguous(node: Mapping[str, Any]) -> bool:
    """Return whether a part is a union of a secret type and another type."""
    choices = node.get("choices", ()) if node.get("type") in {"union", "tagged-union"} else ()
    choices = choices.values() if isinstance(choices, dict) else choices
    kinds = {any(map(_is_secret, _nodes(each, is_own=True))) for each in choices}
    return len(kinds) > 1


def _names_in(node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names and aliases of the fields of a part."""
    found = node.get("fields", ())
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
