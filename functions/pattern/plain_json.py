"""Values of models as the JSON that functions get: by alias, secrets as they are, sets in one order."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from pydantic import BaseModel, RootModel, Secret, SecretBytes, SecretStr, TypeAdapter
from pydantic.dataclasses import is_pydantic_dataclass
from pydantic.fields import FieldInfo

_ANYTHING: TypeAdapter[Any] = TypeAdapter(Any)
_LISTS = (list, tuple, set, frozenset)


def plain_json(value: Any, *, only_set: bool = False) -> Any:
    """Write a value, also a list of models, as JSON; `only_set` leaves out what a model was not given.

    It is the same in every process. Raises `ValueError` for what JSON does not have.
    """
    written = _ANYTHING.dump_python(value, mode="json", by_alias=True, exclude_unset=only_set)
    return _revealed(written, value)


def _revealed(written: Any, held: Any) -> Any:
    """Put secrets in the place of pydantic's asterisks, and what a set holds in order."""
    if isinstance(held, SecretStr | SecretBytes | Secret):
        return plain_json(held.get_secret_value())
    if isinstance(held, RootModel):
        return _revealed(written, held.root)
    if isinstance(written, dict):
        members = _members(held, written)
        return {name: _revealed(each, members.get(name, each)) for name, each in written.items()}
    if isinstance(written, list) and isinstance(held, _LISTS) and len(written) == len(held):
        items = [_revealed(*each) for each in zip(written, held, strict=True)]
        return items if isinstance(held, list | tuple) else sorted(items, key=_in_order)
    return written


def _members(held: Any, names: Collection[str]) -> Mapping[str, Any]:
    """Give what is held by the names under which it is written."""
    if isinstance(held, BaseModel) or is_pydantic_dataclass(type(held)):
        known: Mapping[str, FieldInfo] = type(held).__pydantic_fields__
        own = {each.serialization_alias or name: getattr(held, name) for name, each in known.items()}
        return own | (getattr(held, "__pydantic_extra__", None) or {})
    if is_dataclass(held):
        return {each.name: getattr(held, each.name) for each in fields(held)}
    is_alike = isinstance(held, dict) and len(held) == len(names)
    return dict(zip(names, held.values(), strict=True)) if is_alike else {}


def _in_order(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
