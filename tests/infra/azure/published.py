"""The folder with the types and names that Azure publishes. It is no part of the project.

    python -m tests.infra.azure.published

Gets the resource types that the templates use (`make azure-types`). Exit code: 1 if a type is not published.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.infra.azure.types import Type
from tests.infra.infrastructure import REPOSITORY, Infrastructure

#: Its layout is that of its README; `make azure-types` makes one with the resource types.
FOLDER = (REPOSITORY / os.environ.get("AZURE_TYPES", "../shared/azure-types")).resolve()

_SOURCE = "https://github.com/Azure/bicep-types-az"
_SECONDS = 600
_STABLE = re.compile(r"\d{4}-\d{2}-\d{2}")


def resource_types(infrastructure: Infrastructure) -> list[str]:
    """Return the type and version of every resource in the templates, deployed by them or not."""
    sources = (each.source for template in infrastructure.templates for each in template.resources.values())
    return sorted(set(sources))


@cache
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


def fetch(source: str, names: list[str], folder: Path) -> list[str]:
    """Write the files with these types that the folder lacks; return the names that were not found."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as checkout:
        clone = ["clone", "--quiet", "--depth", "1", "--filter=blob:none", "--no-checkout", source, checkout]
        _git(*clone)
        paths = _git("-C", checkout, "ls-tree", "-r", "--name-only", "HEAD", "generated").splitlines()
        return [name for name in names if not _fetch_type(checkout, paths, name, folder)]


def _fetch_type(checkout: str, paths: list[str], name: str, folder: Path) -> bool:
    """Write the file with a type if it does not exist yet; return whether the type is published."""
    kind, version = name.lower().split("@")
    provider = kind.partition("/")[0]
    file = folder / f"{provider}@{version}.json"
    published = [path for path in paths if path.endswith(f"/{provider}/{version}/types.json")]
    texts = (_git("-C", checkout, "show", f"HEAD:{path}") for path in published)
    for text in [file.read_text(encoding="utf-8")] if file.is_file() else texts:
        if name.lower() in {entry.get("name", "").lower() for entry in json.loads(text)}:
            file.write_text(text, encoding="utf-8")
            return True
    return False


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS).stdout


def main() -> int:
    """Fetch the types that the templates of this project use."""
    names = resource_types(Infrastructure(REPOSITORY))
    try:
        missing = fetch(_SOURCE, names, FOLDER)
    except subprocess.CalledProcessError:
        sys.exit(f"{_SOURCE} can't be read (see above): get the types where there is internet")
    sys.stdout.write(f"{len(names) - len(missing)} resource types are in {FOLDER}\n")
    sys.stdout.writelines(f"not published: {name}\n" for name in missing)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
