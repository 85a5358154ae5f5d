"""The Bicep files: the reader that the policies use, and the compiler, if there is one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.expressions import UnreadableError
from tests.infra.bicep.template import SyntaxFaultError
from tests.infra.bicep.values import Value
from tests.infra.infrastructure import REPOSITORY

_SECONDS = 110


def _deployment(folder: Path, text: str, **parameters: Value) -> Deployment:
    path = folder / "main.bicep"
    path.write_text(text)
    return Deployment(path, parameters)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'it\\'s ${1 > 2 ? 'a' : 'b'}'", "it's b"),
        ("[for each in items({ b: 2, a: 1 }): each.value]", [1, 2]),
    ],
)
def test_expression_is_evaluated(tmp_path: Path, expression: str, value: Value) -> None:
    """An expression that does not depend on Azure has the value that Bicep gives it."""
    assert _deployment(tmp_path, f"output it object = {expression}\n").outputs() == {"it": value}


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        pytest.param("unknown ? 'a' : 'b'", "unknown", id="unknown as a condition"),
        pytest.param("a && app.b", "a && app", id="the parser reads (a && app).b"),
        pytest.param("!app.b", "!app", id="the parser reads (!app).b"),
        pytest.param("app.missing ? 1 : 2", "app.missing", id="null as a condition"),
        pytest.param("filter([1], each => unknown)", "unknown", id="unknown as a filter's condition"),
    ],
)
def test_unreadable_condition_is_not_false(tmp_path: Path, expression: str, fault: str) -> None:
    """It would leave out a deployed resource."""
    text = f"param app object\nparam unknown bool\noutput it bool = {expression}\n"
    with pytest.raises(UnreadableError, match=fault):
        _deployment(tmp_path, text, a=True, app={"b": True}).outputs()


def test_file_that_is_not_bicep_is_an_error(tmp_path: Path) -> None:
    """A part that the grammar does not have is reported with its line, never skipped."""
    with pytest.raises(SyntaxFaultError, match=r"main\.bicep, line 2"):
        _deployment(tmp_path, "param a string\nparam b = = 1\n")


@pytest.mark.process
@pytest.mark.parametrize(
    ("verb", "file"),
    [("build", "main.bicep"), ("lint", "main.bicep"), ("build-params", "main.bicepparam")],
)
def test_compiler_reports_nothing(verb: str, file: str, tmp_path: Path) -> None:
    """No error and no warning, from the compiler or from the linter with infra/bicepconfig.json."""
    bicep = shutil.which("bicep")
    if bicep is None:
        pytest.skip("no Bicep compiler on PATH: the templates were parsed and checked, but not compiled")
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
