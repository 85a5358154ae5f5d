"""The folder with what Azure publishes, which is no part of the project: types, and lists of names."""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import Any

from tests.infra.azure.types import Type
from tests.infra.infrastructure import REPOSITORY

#: Its layout is that of its README; `make azure-types` makes one with the resource types.
FOLDER = (REPOSITORY / os.environ.get("AZURE_TYPES", "../shared/azure-types")).resolve()

_STABLE = re.compile(r"\d{4}-\d{2}-\d{2}")


def resource_type(name: str) -> Type | None:
    """Return the body of `Provider/type@version`, or None where the folder does not have it."""
    kind, version = name.split("@")
    types = _read(f"{kind.partition('/')[0].lower()}@{version}.json") or []
    for entry in types:
        if entry["$type"] == "ResourceType" and entry["name"].lower() == name.lower():
            return Type(types, entry)
    return None


def newest_version(kind: str) -> str | None:
    """Return the newest stable version of a resource type in the folder."""
    files = FOLDER.glob(f"{kind.partition('/')[0].lower()}@*.json")
    versions = [path.stem.partition("@")[2] for path in files]
    stable = [each for each in versions if _STABLE.fullmatch(each) and resource_type(f"{kind}@{each}")]
    return max(stable, default=None)


def listed(name: str) -> dict[str, Any] | None:
    """Return one of the lists of names (`log-tables`, `metrics`, `app-settings`), or None."""
    found: dict[str, Any] | None = _read(f"{name}.json")
    return found


@cache
def _read(file: str) -> Any:
    path = FOLDER / file
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
