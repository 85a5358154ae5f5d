"""Redaction: recorded texts without the fields that their models declare as secret.

A field is secret if its type contains pydantic's `SecretStr`, `SecretBytes` or `Secret`. A text of a model
without such a field is shown as it was recorded. Any other text is validated by its model, and only the
fields of the model are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import takewhile
from typing import Any, TypeAliasType, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic_core import from_json, to_jsonable_python

from functions.core.definition.workflow_definition import Workflow
from functions.http.problems import faults_in

#: Replaces a secret value.
REDACTED = "(hidden)"

_SECRETS = (SecretStr, SecretBytes, Secret)


class NotShownError(Exception):
    """A value cannot be shown. The text says why."""


def redacted(model: type[BaseModel], text: str) -> Any:
    """Return the value of a JSON text that was sent as `model`, without its secret fields.

    Raises `NotShownError` if the model has secret fields and rejects the text.
    """
    if not has_secrets(model):
        return from_json(text)
    try:
        return _without_secrets(model.model_validate_json(text))
    except Exception:  # noqa: BLE001 - a validator of the model may raise anything, and its text has the value
        raise NotShownError("its model has secret fields and rejects it") from None


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
        case list() | tuple() | set() | frozenset():
            return [_without_secrets(each) for each in value]
        case _ if is_dataclass(value):
            return {each.name: _without_secrets(getattr(value, each.name)) for each in fields(value)}
        case _:
            return to_jsonable_python(value)


def printable_text(text: str) -> tuple[str, bool]:
    """Return the first 64 Ki characters, unprintable ones replaced, and whether there are more."""
    shown = text[: 64 * 1024]
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in shown), shown != text


def has_secrets(model: type[BaseModel] | None) -> bool:
    """Return whether a model has a secret field."""
    return any(issubclass(each, _SECRETS) for each in _classes_in(model))


def workflow_has_secrets(workflow: Workflow[Any]) -> bool:
    """Return whether the payload, an event or a result of a workflow has a secret field."""
    models = (workflow.payload, *(step.model for step in workflow.steps.values()))
    return any(has_secrets(model) for model in models)


def public_faults(model: type[BaseModel], source: str, error: ValidationError) -> list[dict[str, Any]]:
    """Return the faults of a value of `model` in `source`.

    If the model has secret fields, the place of a fault ends before the first name that is no field: a
    dict may have secret names.
    """
    faults = faults_in(source, error)
    if not has_secrets(model):
        return faults
    names = {name for each in _classes_in(model) for name in _fields_of(each)}
    return [_public(fault, names) for fault in faults]


def _public(fault: dict[str, Any], names: set[str]) -> dict[str, Any]:
    source, *place = fault["loc"]
    known = names | ({place[-1]} if fault["type"] == "extra_forbidden" else set())
    shown = [*takewhile(lambda part: isinstance(part, int) or part in known, place)]
    if shown == place:
        return fault
    return {"type": "secret", "loc": (source, *shown), "msg": "A value below this place is not valid"}


def _fields_of(holder: type) -> Mapping[str, Any]:
    """Return the annotations of the fields of a class, by each name under which a field may be sent."""
    if issubclass(holder, BaseModel):
        known = holder.model_fields
        by_alias = {str(field.validation_alias): field.annotation for name, field in known.items()}
        return by_alias | {name: field.annotation for name, field in known.items()}
    has_fields = is_dataclass(holder) or is_typeddict(holder) or hasattr(holder, "_fields")
    return get_type_hints(holder) if has_fields else {}


def _classes_in(annotation: Any) -> Iterator[type]:
    """Yield each class in an annotation, and in the fields of these classes."""
    waiting, seen = [annotation], set[Any]()
    while waiting:
        part = waiting.pop()
        waiting += get_args(part)
        origin = get_origin(part) or part
        if not isinstance(origin, type | TypeAliasType) or origin in seen:
            continue
        seen.add(origin)
        if isinstance(origin, TypeAliasType):
            waiting.append(origin.__value__)
        else:
            yield origin
            waiting += _fields_of(origin).values()
