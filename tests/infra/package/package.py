"""Builds the package of `azd deploy`: this folder as a zip file, without what `.funcignore` names."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from pathspec import GitIgnoreSpec

ROOT = Path(__file__).parents[3]


def packaged(root: Path = ROOT) -> Iterator[Path]:
    """Return the files of the package, relative to the root; `.funcignore` has the syntax of `.gitignore`."""
    ignored = GitIgnoreSpec.from_lines((root / ".funcignore").read_text(encoding="utf-8").splitlines())
    for folder, folders, files in root.walk():
        here = folder.relative_to(root)
        folders[:] = [name for name in folders if not ignored.match_file(f"{here / name}/")]
        yield from (here / name for name in files if not ignored.match_file(here / name))


def make_package(path: Path) -> None:
    """Write the zip file."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in packaged():
            archive.write(ROOT / file, file)
