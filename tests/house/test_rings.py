"""`make check` refuses imports that cross the rings, and imports that the core must not have."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_WORKFLOW = "functions/workflows/added"
_SOURCES = ("packages/functions-local/src", "packages/servicebus-local/src")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the files that the contracts cover, and add a workflow."""
    folder = tmp_path_factory.mktemp("rings")
    leave_out = shutil.ignore_patterns("__pycache__", "static")
    for name in ("functions", "local", *_SOURCES):
        shutil.copytree(ROOT / name, folder / name, ignore=leave_out)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / _WORKFLOW).mkdir()
    for name in ("__init__", "definition", "models"):
        (folder / _WORKFLOW / f"{name}.py").touch()
    return folder


def check(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the contracts on a copy, as `make check` does."""
    lint_imports = Path(sys.executable).with_name("lint-imports")
    path = os.pathsep.join(str(folder / name) for name in (".", *_SOURCES))
    return subprocess.run(
        [lint_imports, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


def test_unchanged_copy_keeps_the_contracts(copy: Path) -> None:
    """The application passes, and so does a workflow that imports nothing."""
    assert check(copy).returncode == 0


@pytest.mark.parametrize(
    ("place", "imported"),
    [
        ("functions/core", "functions.settings"),
        ("functions/core", "functions.tomorrow"),
        ("functions/core", "local.commands"),
        ("functions/core", "random"),
        ("functions/storage", "functions.messaging"),
        ("functions/operators", "functions.workflows.registry"),
        ("functions/agents", "functions.supervisor"),
        ("functions/supervisor", "functions.workflows"),
        (f"{_WORKFLOW}/definition.py", "functions.agents"),
        (f"{_WORKFLOW}/models.py", "azure.identity"),
        ("functions/submission", "functions_local"),
        ("functions/api", "tests.fakes"),
        ("functions/workflows/added/models.py", "functions.workflows.registry"),
        ("packages/functions-local/src/functions_local", "function_app"),
        ("packages/functions-local/src/functions_local", "functions.core"),
        ("packages/functions-local/src/functions_local", "servicebus_local"),
        ("packages/servicebus-local/src/servicebus_local", "local"),
        ("functions/tomorrow.py", "functions.core"),
    ],
)
def test_import_that_crosses_a_ring_is_refused(copy: Path, place: str, imported: str) -> None:
    """Also by a module that is added later; a module outside all layers is refused."""
    added = copy / "functions/tomorrow.py"
    planted = copy / place if place.endswith(".py") else copy / place / "planted.py"
    before = {path: path.read_bytes() if path.exists() else None for path in (added, planted)}
    if imported == "functions.tomorrow":
        added.touch()
    planted.write_bytes((before[planted] or b"") + f"\nimport {imported}\n".encode())
    try:
        checked = check(copy)
    finally:
        for path, content in before.items():
            path.write_bytes(content or b"")
            if content is None:
                path.unlink()
    assert (checked.returncode, "BROKEN" in checked.stdout) == (1, True), checked.stdout


@pytest.mark.parametrize("package", ["functions", "functions/core"])
def test_package_has_a_docstring_only(package: str) -> None:
    """Its `__init__` is in no layer."""
    [statement] = ast.parse((ROOT / package / "__init__.py").read_text(encoding="utf-8")).body
    assert isinstance(statement, ast.Expr)
