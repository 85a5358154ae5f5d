"""The queries read metrics that the application has."""

from __future__ import annotations

import ast
import re

import pytest

from functions.telemetry.fields import Field
from tests.infra.watching.conftest import ROOT
from tests.infra.watching.kql import query_names, read_query

_OF_METRICS = [name for name in query_names() if "AppMetrics" in read_query(name).text]


def _instruments() -> set[str]:
    """Return the names of the instruments in `instruments.py`: the first argument of each `create_…`."""
    source = (ROOT / "functions/telemetry/instruments.py").read_bytes()
    return {
        node.args[0].value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr.startswith("create_")
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    }


@pytest.mark.parametrize("name", _OF_METRICS)
def test_metrics_and_their_attributes_exist(name: str) -> None:
    """With the names under which they are exported."""
    text = read_query(name).text
    filtered = next(line for line in text.splitlines() if line.startswith("| where Name "))
    named = set(re.findall(r'"([^"]+)"', filtered))
    assert named
    assert named <= _instruments()
    assert set(re.findall(r'Properties\["([^"]+)"\]', text)) <= set(Field)


def test_states_and_durations_are_metrics() -> None:
    """For the workbook's first two parts, and the alert on late events."""
    assert _OF_METRICS == ["late-events", "task-counts", "task-durations"]
