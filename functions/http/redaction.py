"""Redaction: recorded texts without the fields that their models declare as secret.

A field is secret if its type contains pydantic's `SecretStr`, `SecretBytes` or `Secret`. A text of a model
without such a field is shown as it was recorded. Any other text is validated by its model, and only the
fields of the model are shown, by their declared types. It is not shown if a secret type is inside of another
type than a model, a list, a tuple, a dict, or a union of models with a tag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import repeat, takewhile
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    TypeAliasType,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, ValidationError
from pydantic_core import from_json, to_jsonable_python

from functions.core.definition.definition_checks import sent_names
from functions.core.definition.workflow_definition import Workflow
from functions.http.problems import faults_in

#: Replaces a secret value.
REDACTED = "(hidden)"

_SECRETS = (SecretStr, SecretBytes, Secret)
_LISTS = frozenset({list, set, frozenset, deque, Sequence})
#: Attributes of a type that name another one: of an alias, a new type, a type variable and an `InitVar`.
_NAMED = ("__value__", "__supertype__", "__bound__", "type")


class NotShownError(Exception):
    """A value cannot be shown. The text says why."""


def redacted(model: type[BaseModel], text: str) -> Any:
    """Return the value of a JSON text that was sent as `model`, without its secret fields.

    Raises `NotShownError` for a text that is no JSON, and if the model has secret fields and rejects it.
    """
    try:
        return _redact(model.model_validate_json(text), model) if has_secrets(model) else from_json(text)
    except NotShownError:
        raise
    except Exception:  # noqa: BLE001 - a validator of the model may raise anything, and its text has the value
        reason = "its model has secret fields and rejects it" if has_secrets(model) else "it is no valid JSON"
        raise NotShownError(reason) from None


def _redact(value: Any, declared: Any) -> Any:
    """Return a value as JSON without its secrets. Only values without any are serialized by their types."""
    kind = _named(declared)
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if value is None or not _has_secret(kind):
        return to_jsonable_python(value)
    if _is_secret(kind):
        return REDACTED
    if origin in {Union, UnionType} and type(value) in inner and _have_tag(inner):
        kind = type(value)
    if _is_model(kind) and isinstance(value, kind):
        fields = {name: each for name, each in kind.model_fields.items() if name in value.model_fields_set}
        members = {name: _redact(getattr(value, name), each.annotation) for name, each in fields.items()}
        return members["root"] if issubclass(kind, RootModel) else members
    if origin in _LISTS and isinstance(value, list | set | frozenset | deque):
        return [_redact(each, inner[0]) for each in value]
    if origin is tuple and isinstance(value, tuple):
        kinds = repeat(inner[0]) if inner[-1] is Ellipsis else inner
        return [_redact(each, kind) for each, kind in zip(value, kinds, strict=False)]
    if origin in {dict, Mapping} and isinstance(value, dict):
        return {str(_redact(name, inner[0])): _redact(each, inner[1]) for name, each in value.items()}
    name = "union" if origin in {Union, UnionType} else getattr(origin, "__name__", "type")
    raise NotShownError(f"a secret type of its model is in a {name}")


def printable_text(text: str) -> tuple[str, bool]:
    """Return the first 64 Ki characters, unprintable ones replaced, and whether there are more."""
    shown = text[: 64 * 1024]
    return "".join(each if each.isprintable() or each in "\n\t" else "�" for each in shown), shown != text


def has_secrets(model: type[BaseModel] | None) -> bool:
    """Return whether a model has a secret field."""
    return model is not None and _has_secret(model)


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
    names = frozenset[str]().union(*(sent_names(each) for each in _types_in(model) if _is_model(each)))
    return [_public(fault, names) for fault in faults]


def _public(fault: dict[str, Any], names: frozenset[str]) -> dict[str, Any]:
    source, *place = fault["loc"]
    is_extra = fault["type"] == "extra_forbidden" and len(place) == 1
    known = names | ({place[0]} if is_extra else set())
    shown = [*takewhile(lambda part: isinstance(part, int) or part in known, place)]
    if shown == place:
        return fault
    return {"type": "secret", "loc": (source, *shown), "msg": "A value below this place is not valid"}


# Types


def _named(kind: Any) -> Any:
    """Return a type in the place of its alias, without annotations of it and without None beside it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _named(inner[0])
    if isinstance(origin, TypeAliasType):
        return _named(origin.__value__[inner])
    others = [each for each in inner if each is not NoneType]
    if origin in {Union, UnionType} and len(others) == 1:
        return _named(others[0])
    for name in _NAMED:
        if hasattr(kind, name) and not isinstance(kind, type):
            return _named(getattr(kind, name))
    return kind


def _is_secret(kind: Any) -> bool:
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, _SECRETS)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _have_tag(models: Sequence[Any]) -> bool:
    """Return whether all models have a field of literals by which a value is of one of them only."""
    if not all(map(_is_model, models)):
        return False
    fields = [model.model_fields.items() for model in models]
    tags = [{name for name, each in some if get_origin(each.annotation) is Literal} for some in fields]
    return bool(set.intersection(*tags))


def _has_secret(kind: Any) -> bool:
    """Return whether a type contains a secret one, or a name that cannot be resolved."""
    return any(_is_secret(each) or isinstance(each, str) or each is None for each in _types_in(kind))


def _types_in(kind: Any) -> Iterator[Any]:
    """Yield a type and the types in it, except those in a secret one. None: a part cannot be resolved."""
    waiting, seen = [kind], list[Any]()
    while waiting:
        each = waiting.pop()
        if any(each is one or (isinstance(each, str) and each == one) for one in seen):
            continue
        # The type of an alias may refer to the alias by its name.
        seen += [each, each.__name__] if hasattr(each, "__value__") else [each]
        yield each
        if not _is_secret(each):
            waiting += _parts_of(each)


def _parts_of(kind: Any) -> list[Any]:
    named = _named(kind)
    inner = () if get_origin(named) is Literal else get_args(named)
    parts = [getattr(each, "__forward_arg__", each) for each in inner if each is not NoneType]
    parts += [] if named is kind else [named]
    has_fields = is_dataclass(named) or is_typeddict(named) or hasattr(named, "_fields")
    try:
        if _is_model(named):
            named.model_rebuild()
            parts += [field.annotation for field in named.model_fields.values()]
            if named.model_config.get("extra") == "allow":
                parts.append(get_type_hints(named).get("__pydantic_extra__", Any))
        elif has_fields:
            parts += get_type_hints(named, include_extras=True).values()
    except Exception:  # noqa: BLE001 - a type may raise anything
        parts.append(None)
    return parts
