"""Gets the resource types that the templates use from where Azure publishes them: `make azure-types`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.infra.azure.policies import resource_types
from tests.infra.azure.published import FOLDER
from tests.infra.infrastructure import REPOSITORY, Infrastructure

_PUBLISHED = "https://github.com/Azure/bicep-types-az"
_SECONDS = 600


def fetch(source: str, names: list[str], folder: Path) -> list[str]:
    """Write the files with these types that the folder lacks; return the names that were not found."""
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as checkout:
        clone = ["clone", "--quiet", "--depth", "1", "--filter=blob:none", "--no-checkout", source, checkout]
        _git(*clone)
        paths = _git("-C", checkout, "ls-tree", "-r", "--name-only", "HEAD", "generated").splitlines()
        return [name for name in names if not _found(checkout, paths, name, folder)]


def _found(checkout: str, paths: list[str], name: str, folder: Path) -> bool:
    kind, version = name.lower().split("@")
    provider = kind.partition("/")[0]
    file = folder / f"{provider}@{version}.json"
    published = [path for path in paths if path.endswith(f"/{provider}/{version}/types.json")]
    for text in _texts(checkout, published, file):
        if name.lower() in {entry.get("name", "").lower() for entry in json.loads(text)}:
            file.write_text(text, encoding="utf-8")
            return True
    return False


def _texts(checkout: str, published: list[str], file: Path) -> Iterator[str]:
    """Yield the file that is there already, then those that are published."""
    if file.is_file():
        yield file.read_text(encoding="utf-8")
    else:
        yield from (_git("-C", checkout, "show", f"HEAD:{path}") for path in published)


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=_SECONDS).stdout


def main() -> int:
    """Fetch what the templates of this project use."""
    names = resource_types(Infrastructure(REPOSITORY))
    try:
        missing = fetch(_PUBLISHED, names, FOLDER)
    except subprocess.CalledProcessError:
        sys.exit(f"{_PUBLISHED} can't be read (see above): get the types where there is internet")
    sys.stdout.write(f"{len(names) - len(missing)} resource types are in {FOLDER}\n")
    sys.stdout.writelines(f"not published: {name}\n" for name in missing)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
