"""The templates compile and lint without messages, if there is a Bicep compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.infra.infrastructure import REPOSITORY

_SECONDS = 110

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def bicep() -> str:
    """Find the compiler on PATH."""
    found = shutil.which("bicep")
    if found is None:
        pytest.skip("no Bicep compiler on PATH: the templates were parsed and checked, but not compiled")
    return found


@pytest.mark.parametrize(
    ("verb", "file"),
    [("build", "main.bicep"), ("lint", "main.bicep"), ("build-params", "main.bicepparam")],
)
def test_compiler_reports_nothing(bicep: str, verb: str, file: str, tmp_path: Path) -> None:
    """No error and no warning, from the compiler or from the linter with infra/bicepconfig.json."""
    write = [] if verb == "lint" else ["--outfile", str(tmp_path / "out.json")]
    run = subprocess.run(
        [bicep, verb, str(REPOSITORY / "infra" / file), *write],
        env={"AZURE_ENV_NAME": "test", "AZURE_LOCATION": "westeurope", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")
