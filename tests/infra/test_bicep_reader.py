"""The reader of templates that the policies use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.infra.bicep.deployment import Deployment, Planned
from tests.infra.bicep.expressions import UnreadableError
from tests.infra.bicep.template import SyntaxFaultError
from tests.infra.bicep.values import Unresolved, Value


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
        ("[1, true, null]", [1, True, None]),
        ("{ a: { b: 3 } }.a.b", 3),
        ("{}.?missing ?? 'else'", "else"),
        ("!empty([])", False),
        ("false || ({ a: true }.a)", True),
        ("filter([1, 2, 3], each => each > 1)", [2, 3]),
        ("'x' == 'x'", True),
        ("union({ a: 1 }, { a: 2, b: 3 })", {"a": 2, "b": 3}),
        ("concat(['a'], false ? [] : ['b'])", ["a", "b"]),
        ("[for (name, number) in ['a', 'b']: '${name}${number}']", ["a0", "b1"]),
        ("[for each in items({ b: 2, a: 1 }): each.value]", [1, 2]),
        ("string(max(3, 7))", "7"),
        ("uriComponent('a == /b')", "a%20%3D%3D%20%2Fb"),
        ("environment().suffixes.storage", "core.windows.net"),
    ],
)
def test_expression_is_evaluated(tmp_path: Path, expression: str, value: Value) -> None:
    """An expression that does not depend on Azure has the value that Bicep gives it."""
    assert _outputs(tmp_path, f"output it object = {expression}\n") == {"it": value}


def test_parameters_reach_variables_and_functions(tmp_path: Path) -> None:
    """A parameter has its argument or its default; functions of the file are called."""
    text = """
param first string
param second string = 'default'
func both(a string, b string) string => '${a}-${b}'
var joined = both(first, second)
output it string = joined
"""
    assert _outputs(tmp_path, text, first="given") == {"it": "given-default"}


def test_what_only_azure_knows_stays_an_expression(tmp_path: Path) -> None:
    """A property of a resource keeps its text, and the type of its resource."""
    text = """
resource account 'Microsoft.Storage/storageAccounts@2026-04-01' existing = {
  name: 'it'
}
output address string = account.properties.primaryEndpoints.table
output text string = 'at ${account.id}'
"""
    kind = "Microsoft.Storage/storageAccounts"
    assert _outputs(tmp_path, text) == {
        "address": Unresolved("account.properties.primaryEndpoints.table", kind),
        "text": Unresolved("at ${account.id}", kind, written=True),
    }


_MODULES = """
param deep bool
module inner 'inner.bicep' = if (deep) {
  params: {
    names: ['a', 'b']
  }
}
output first string = inner.?outputs.?first ?? 'none'
"""
_INNER = """
param names array
resource thing 'Microsoft.X/things@2020-01-01' = [for name in names: {
  name: name
}]
output first string = names[0]
"""


def test_modules_are_planned_with_their_arguments(tmp_path: Path) -> None:
    """A loop in a module makes one resource for each item that main passes."""
    (tmp_path / "inner.bicep").write_text(_INNER)
    deployment = _deployment(tmp_path, _MODULES, deep=True)
    path = (tmp_path / "inner.bicep").resolve()
    assert list(deployment.planned()) == [
        Planned(path, "thing", "Microsoft.X/things", "2020-01-01", {"name": name}) for name in "ab"
    ]
    assert deployment.outputs() == {"first": "a"}


def test_module_whose_condition_fails_is_not_deployed(tmp_path: Path) -> None:
    """None of its resources are planned, and its outputs are null."""
    (tmp_path / "inner.bicep").write_text(_INNER)
    deployment = _deployment(tmp_path, _MODULES, deep=False)
    assert (list(deployment.planned()), deployment.outputs()) == ([], {"first": "none"})


def test_resource_whose_condition_fails_is_null(tmp_path: Path) -> None:
    """A safe access to it is null; to one that is deployed, it is unresolved."""
    text = """
param there bool
resource thing 'Microsoft.X/things@2020-01-01' = if (there) {
  name: 'it'
}
output uri string = thing.?properties.uri ?? ''
"""
    assert _outputs(tmp_path, text, there=False) == {"uri": ""}
    assert _outputs(tmp_path, text, there=True) == {
        "uri": Unresolved("thing.properties.uri", "Microsoft.X/things")
    }


def test_condition_that_depends_on_azure_is_an_error(tmp_path: Path) -> None:
    """A plan that depends on what only Azure knows is refused, not guessed."""
    with pytest.raises(UnreadableError, match="unknown"):
        _outputs(tmp_path, "param unknown bool\noutput it string = unknown ? 'a' : 'b'\n")


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("a && app.b", id="the parser reads (a && app).b"),
        pytest.param("!app.b", id="the parser reads (!app).b"),
        pytest.param("app.missing ? 1 : 2", id="null as a condition"),
        pytest.param("filter([1], each => unknown)", id="unknown as a filter's condition"),
    ],
)
def test_what_cannot_be_read_is_not_taken_for_false(tmp_path: Path, expression: str) -> None:
    """It would leave out what Azure deploys."""
    with pytest.raises(UnreadableError):
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
