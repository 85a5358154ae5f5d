"""Reading the published types and names: types, the columns of queries, and the download of types."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.infra.azure.kql import UnreadQueryError, read_query
from tests.infra.azure.published import fetch
from tests.infra.azure.types import Type, faults_of, unknown_read
from tests.infra.bicep.values import Unresolved, Value

#: A resource with one property of each kind; the numbers are the indexes that references name.
_TYPES: list[dict[str, Any]] = [
    {"$type": "ResourceType", "name": "Microsoft.X/things@2026-01-01", "body": {"$ref": "#/1"}},
    {
        "$type": "ObjectType",
        "properties": {
            "name": {"type": {"$ref": "#/2"}, "flags": 1},
            "id": {"type": {"$ref": "#/2"}, "flags": 2},
            "size": {"type": {"$ref": "#/3"}, "flags": 0},
            "mode": {"type": {"$ref": "#/4"}, "flags": 0},
            "tags": {"type": {"$ref": "#/7"}, "flags": 0},
            "names": {"type": {"$ref": "#/8"}, "flags": 0},
        },
    },
    {"$type": "StringType", "minLength": 2, "pattern": "^[a-z]+$"},
    {"$type": "IntegerType", "minValue": 1, "maxValue": 9},
    {"$type": "UnionType", "elements": [{"$ref": "#/5"}, {"$ref": "#/6"}, {"$ref": "#/2"}]},
    {"$type": "StringLiteralType", "value": "On"},
    {"$type": "StringLiteralType", "value": "Off"},
    {"$type": "ObjectType", "properties": {}, "additionalProperties": {"$ref": "#/2"}},
    {"$type": "ArrayType", "itemType": {"$ref": "#/2"}, "maxLength": 1},
]
_THING = Type(_TYPES, _TYPES[0])
_UNKNOWN = Unresolved("app.id")
_WRITTEN = Unresolved("${app.id}", written=True)


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        ({"size": 9, "mode": "On", "tags": {"any": "text"}, "names": ["ab"], "parent": _UNKNOWN}, None),
        ({"size": _UNKNOWN, "mode": _UNKNOWN, "names": None}, None),
        ({"sizes": 1}, "'sizes' was unexpected"),
        ({"id": "ab"}, ".id: False schema does not allow"),
        ({"name": None}, '"name" is a required property'),
        ({"name": "a"}, '.name: "a" is shorter than 2 characters'),
        ({"name": "AB"}, '.name: "AB" does not match'),
        ({"size": 10}, ".size: 10 is greater than the maximum of 9"),
        ({"size": "9"}, '.size: "9" is not of type "integer"'),
        ({"size": True}, '.size: true is not of type "integer"'),
        ({"size": _WRITTEN}, '.size: {"written":true} is not of type "integer"'),
        ({"mode": "on"}, '.mode: "on" is not one of "On" or "Off"'),
        ({"mode": 1}, '.mode: 1 is not one of "On" or "Off"'),
        ({"tags": {"any": 1}}, '.tags.any: 1 is not of type "string"'),
        ({"names": ["ab", "cd"]}, '.names: ["ab","cd"] has more than 1 item'),
    ],
)
def test_resource_is_compared_with_its_type(given: dict[str, Value], fault: str | None) -> None:
    """Each property by name, kind, bounds and allowed values; a value that only Azure can compute fits."""
    found = list(faults_of({"name": "thing", **given}, _THING))
    assert [fault in each for each in found if fault] == [True] * len(found)
    assert bool(found) is bool(fault)
    paths = {("tags", "any"): None, ("size", "anything"): None, ("sizes",): "sizes"}
    assert {path: unknown_read(path, _THING) for path in paths} == paths  # as far as types are known


@pytest.mark.parametrize(
    ("stages", "unknown", "columns"),
    [
        ("| where Name startswith 'x' and Size > 5m", (), {"Name", "Size"}),
        ("| extend Half = Size / 2 | where Half > 1", (), {"Name", "Size", "Half"}),
        ("| project Size, Label = tostring(Name)", (), {"Size", "Label"}),
        ("| project Size | where Name == 1", ("column Name",), {"Size"}),
        (
            "| summarize Most = max(Size), sum(Sizes) by Name",
            ("column Sizes",),
            {"Most", "sum_Sizes", "Name"},
        ),
        ('| parse Name with "of " Who ": " What | where Who has "a"', (), {"Name", "Size", "Who", "What"}),
    ],
)
def test_columns_are_followed(stages: str, unknown: tuple[str, ...], columns: set[str]) -> None:
    """From stage to stage; texts in quotes and comments name nothing."""
    tables = {"Things": {"Name": "string", "Size": "int"}}
    read = read_query(f"// Text of no table\nThings\n{stages.replace("'", '"')}", tables)
    assert (read.unknown, set(read.columns)) == (unknown, columns)


def test_unknown_tables_and_operators_are_not_passed_over() -> None:
    """A query that can't be followed is an error."""
    assert read_query("Thing", {}).unknown == ("table Thing",)
    with pytest.raises(UnreadQueryError, match="operator"):
        read_query("Things | mv-expand Name", {"Things": ["Name"]})


@pytest.mark.process
def test_types_are_fetched_from_a_repository(tmp_path: Path) -> None:
    """Only the files with a wanted type; missing types are named."""
    source, folder = tmp_path / "source", tmp_path / "types"
    for place in ("other", "things"):
        path = source / "generated" / place / "microsoft.x" / "2026-01-01" / "types.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(_TYPES if place == "things" else []))
    author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    for command in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message", "types"]):
        subprocess.run(["git", "-C", str(source), *command], check=True, timeout=20)
    missing = fetch(f"file://{source}", ["Microsoft.X/things@2026-01-01", "Microsoft.Y/a@2026-01-01"], folder)
    assert missing == ["Microsoft.Y/a@2026-01-01"]
    assert json.loads((folder / "microsoft.x@2026-01-01.json").read_text()) == _TYPES
