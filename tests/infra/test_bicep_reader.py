"""The reader of templates that the policies use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.bicep.deployment import Deployment
from tests.infra.bicep.expressions import UnreadableError
from tests.infra.bicep.template import SyntaxFaultError
from tests.infra.bicep.values import Value


def _deployment(folder: Path, text: str, **parameters: Value) -> Deployment:
    path = folder / "main.bicep"
    path.write_text(text)
    return Deployment(path, parameters)


def _outputs(folder: Path, text: str, **parameters: Value) -> dict[str, Value]:
    return _deployment(folder, text, **parameters).outputs()


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'it\\'s ${1 > 2 ? 'a' : 'b'}'", "it's b"),
        ("[for each in items({ b: 2, a: 1 }): each.value]", [1, 2]),
    ],
)
def test_expression_is_evaluated(tmp_path: Path, expression: str, value: Value) -> None:
    """An expression that does not depend on Azure has the value that Bicep gives it."""
    assert _outputs(tmp_path, f"output it object = {expression}\n") == {"it": value}


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
def test_what_cannot_be_read_is_not_taken_for_false(tmp_path: Path, expression: str, fault: str) -> None:
    """It would leave out what Azure deploys: a plan that depends on what only Azure knows is not guessed."""
    with pytest.raises(UnreadableError, match=fault):
        _outputs(
            tmp_path,
            f"param app object\nparam unknown bool\noutput it bool = {expression}\n",
            a=True,
            app={"b": True},
        )


def test_file_that_is_not_bicep_is_an_error(tmp_path: Path) -> None:
    """A part that the grammar does not know is reported with its line, never skipped."""
    with pytest.raises(SyntaxFaultError, match=r"main\.bicep, line 2"):
        _deployment(tmp_path, "param a string\nparam b = = 1\n")
