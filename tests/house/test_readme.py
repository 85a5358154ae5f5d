"""The README's promises that need no process."""

from __future__ import annotations

import json
import re

from tests.house.readme import README, ROOT, shell_commands

_FIRST_COMMAND_BY_LINE = 20


def test_first_command_comes_early() -> None:
    """A newcomer finds what to type without scrolling."""
    lines = README.splitlines()
    assert "make run" in lines[:_FIRST_COMMAND_BY_LINE]


def test_make_targets_exist() -> None:
    """Every `make` that is named can be typed."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`?make ([a-z-]+)`?", README)) & set(re.findall(r"make ([a-z-]+)`", README))
    assert named, "the README names no target at all"
    assert [target for target in sorted(named) if f"\n{target}:" not in makefile] == []


def test_sample_order_is_valid_json() -> None:
    """The orders in the curl lines can be pasted."""
    bodies = [body for line in shell_commands() for body in re.findall(r"-d '(.*)'", line)]
    assert [json.loads(body)["customer"] for body in bodies] == ["C-1042", "C-1042"]


def test_paths_of_the_house_exist() -> None:
    """Every folder and file that the layout names is there."""
    table = README.split("## The house")[1]
    named = re.findall(r"`([a-z_]+/[a-z_/.]*|[a-z_]+\.py)`", table)
    missing = [path for path in named if not any((base / path).exists() for base in (ROOT, ROOT / "tests"))]
    assert missing == []
