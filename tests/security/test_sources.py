"""Checks of the sources: filters contain no values, settings no secrets, and packages are pinned."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: A comparison in a Table Storage filter (OData), and whether its right side is a parameter.
_COMPARISON = re.compile(r"\b\w+ (?:eq|ne|gt|ge|lt|le) (@\w)?")


def _texts(code: str) -> Iterator[str]:
    """Yield every string in Python code; of f-strings, only the literal parts."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _comparisons(code: str) -> list[bool]:
    """Return for each comparison whether it is with a parameter."""
    return [bool(each[1]) for text in _texts(code) for each in _COMPARISON.finditer(text)]


def test_filters_compare_with_parameters_only() -> None:
    """So no value, whatever its source, is parsed as part of a filter."""
    files = [path.read_text(encoding="utf-8") for path in (ROOT / "functions").rglob("*.py")]
    comparisons = [each for code in files for each in _comparisons(code)]
    assert comparisons != []
    assert all(comparisons)


@pytest.mark.parametrize(
    "code",
    [
        "f\"OrderID eq '{task}'\"",
        'f"OrderID eq {task}"',
        '"OrderID eq \'" + task',
        "\"OrderID eq '%s'\" % task",
        "\"OrderID eq '{}'\".format(task)",
    ],
)
def test_filter_with_a_value_is_detected(code: str) -> None:
    """However it is inserted."""
    assert _comparisons(code) == [False]


def test_settings_of_a_developer_are_not_committed() -> None:
    """Git ignores `local.settings.json`, which may contain connection strings of real services."""
    assert "local.settings.json" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_sample_settings_hold_no_secret() -> None:
    """Storage is Azurite's well-known account; the Service Bus key is a placeholder."""
    values = json.loads((ROOT / "local.settings.sample.json").read_text(encoding="utf-8"))["Values"]
    assert {values["AzureWebJobsStorage"], values["StateStore"]} == {"UseDevelopmentStorage=true"}
    assert "SharedAccessKey=SAS_KEY_VALUE;" in values["ServiceBusConnection"]
    assert [name for name in values if name.endswith("_KEY")] == []


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-local.txt", "requirements-dev.txt"])
def test_packages_are_pinned_with_their_hashes(name: str) -> None:
    """So pip installs exactly these files: with one hash given, it requires all of them."""
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert packages != []
    pinned = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+ .*--hash=sha256:[0-9a-f]{64}")
    assert [line for line in packages if not pinned.match(line)] == []
