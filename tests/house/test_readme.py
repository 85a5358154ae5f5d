"""The README's promises, as far as they can be tested without a process."""

from __future__ import annotations

import json
import re

import pytest

from tests.house.documents import ROOT, shell_commands

_README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_is_one_page() -> None:
    """Details are on separate pages below `docs/`."""
    assert len(_README.splitlines()) <= 150


def test_first_command_comes_early() -> None:
    """A newcomer finds the first command without scrolling."""
    assert "make run" in _README.splitlines()[:20]


def test_make_targets_exist() -> None:
    """Every `make` target that is named can be run."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"`make ([a-z-]+)`", _README))
    assert named, "the README names no target"
    assert [target for target in sorted(named) if f"\n{target}:" not in makefile] == []


@pytest.mark.parametrize("document", ["README.md", "docs/deploy.md"])
def test_sample_order_is_valid_json(document: str) -> None:
    """The order in the curl command can be pasted."""
    bodies = [body for line in shell_commands(document) for body in re.findall(r"-d '(.*)'", line)]
    assert [json.loads(body)["customer"] for body in bodies] == ["C-1042"]


def test_every_document_can_be_found_in_the_index() -> None:
    """`docs/README.md` links to each page below `docs/`; for decisions, to their folder."""
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    index = re.findall(r"\]\(([\w/.-]+)", (ROOT / "docs/README.md").read_text(encoding="utf-8"))
    assert sorted(page for page in pages - {"README.md"} if not page.startswith(tuple(index))) == []
