"""What is deployed: the application, what it imports, and nothing else."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pytest

from tests.infra.package.imports import packages_imported
from tests.infra.package.package import ROOT, make_package, packaged

#: The files besides the folder `functions/`.
_FILES = {"function_app.py", "host.json", "requirements.txt"}


def test_package_holds_the_application_and_nothing_else(tmp_path: Path) -> None:
    """No tests, no local platform, no templates, no developer's settings."""
    make_package(tmp_path / "package.zip")
    with zipfile.ZipFile(tmp_path / "package.zip") as archive:
        names = set(archive.namelist())
    every = (ROOT / "functions").rglob("*")
    ours = [path for path in every if path.is_file() and "__pycache__" not in path.parts]
    assert names == {str(path.relative_to(ROOT)) for path in ours} | _FILES


def test_new_file_at_the_root_is_detected(tmp_path: Path) -> None:
    """A file that `.funcignore` does not name is packaged, so the test above would fail."""
    (tmp_path / ".funcignore").write_bytes((ROOT / ".funcignore").read_bytes())
    for name in ("notes.txt", "local.settings.json", "secrets.env", ".env", "README.md", "tests/test_a.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert {str(path) for path in packaged(tmp_path)} == {"notes.txt", "secrets.env"}


@pytest.mark.parametrize("environment", [".venv", "venv", "main_env"])
def test_no_virtual_environment_is_packaged(environment: str, tmp_path: Path) -> None:
    """Nor that of `azd restore`, `<folder>_env`: azd excludes only what `.funcignore` names."""
    (tmp_path / ".funcignore").write_bytes((ROOT / ".funcignore").read_bytes())
    (tmp_path / environment / "lib").mkdir(parents=True)
    (tmp_path / environment / "lib" / "module.py").touch()
    assert list(packaged(tmp_path)) == []


def test_requirements_name_everything_that_is_imported() -> None:
    """Pinned, because the build in Azure installs exactly these."""
    required = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.txt").read_text("utf-8"), re.MULTILINE)
    sources = [ROOT / path for path in packaged() if path.suffix == ".py"]
    imported = packages_imported(sources, ours=frozenset({"functions"}))
    assert {"fastapi", "azure-functions", "azure-data-tables"} <= set(imported.values())
    assert {module: name for module, name in imported.items() if name not in required} == {}


def test_imports_are_found(tmp_path: Path) -> None:
    """Also those within functions, and the package of a namespace's module."""
    source = tmp_path / "source.py"
    source.write_text(
        "import json\ndef late():\n    from azure.data.tables import TableClient\nimport pytest\n"
    )
    assert packages_imported([source], ours=frozenset()) == {
        "azure.data.tables": "azure-data-tables",
        "pytest": "pytest",
    }
