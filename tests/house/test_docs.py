"""Files, folders, tests, and the targets of links exist if the documents name them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.documents import (
    ROOT,
    code_blocks,
    documents,
    is_of_removed_sample,
    markdown_files,
    our_files,
    prose,
)

_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
_FILE_TYPES = frozenset({"py", "md", "json", "toml", "yaml", "yml", "txt", "bicep", "html", "ini", "cfg"})
_TEST = re.compile(r"test_\w+")
#: A test, preceded by its folder below `tests/` or its file.
_PLACED_TEST = re.compile(r"`([\w/]+(?:\.py)?)` `(test_\w+|Test\w+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ELSEWHERE = ("http://", "https://", "mailto:")
_MOST_COLUMNS = 120

#: The folders of relative paths; documents on tests omit `tests/`, and files of `functions/` its name.
_BASES = (ROOT, ROOT / "tests")
#: Files that a developer creates.
_MADE_LATER = frozenset({"local.settings.json"})

DOCUMENTS = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]
MARKDOWN_FILES = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in markdown_files()]


@cache
def _names() -> frozenset[str]:
    """Return the name of every file and folder of the project."""
    files = our_files()
    return frozenset({path.name for path in files} | {path.parent.name for path in files})


def _is_path(quoted: str) -> bool:
    """Return whether text in code style is a path: it has a known file type, or starts with a folder here."""
    if not _PATH.fullmatch(quoted) or quoted.startswith("."):
        return False
    if quoted.rpartition(".")[2] in _FILE_TYPES:
        return True
    return "/" in quoted and any((base / quoted.partition("/")[0]).is_dir() for base in _BASES)


def _is_there(path: str) -> bool:
    return (
        is_of_removed_sample(path)
        or any((base / path).exists() for base in (*_BASES, ROOT / "functions"))
        or ("/" not in path and path in _names())
    )


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: Path) -> None:
    """From the root or a base folder, or by file name only; files that a tutorial creates are exempt."""
    made = _MADE_LATER | {block.file for block in code_blocks(str(document.relative_to(ROOT)))}
    named = {quoted for quoted in _QUOTED.findall(prose(document)) if _is_path(quoted)} - made
    assert sorted(path for path in named if not _is_there(path)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tests_exist(document: Path) -> None:
    """Every test that is named exists, in the folder or file that is named before it."""
    text = prose(document)
    named = {quoted for quoted in _QUOTED.findall(text) if _TEST.fullmatch(quoted)}
    assert sorted(named - _tests_in("")) == []
    assert [(place, name) for place, name in _PLACED_TEST.findall(text) if name not in _tests_in(place)] == []


@cache
def _tests_in(place: str) -> frozenset[str]:
    """Return the names of the tests in a folder or a file below `tests/`; of all tests for `""`."""
    path = ROOT / "tests" / place
    files = [path] if path.is_file() else path.rglob("test_*.py")
    texts = (file.read_text(encoding="utf-8") for file in files)
    return frozenset(name for text in texts for name in re.findall(r"\b(test_\w+(?=\()|Test\w+)", text))


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    """Links lead to a file, and to a heading in it if they name one."""
    links = [link for link in _LINK.findall(prose(document)) if not link.startswith(_ELSEWHERE)]
    assert [link for link in links if not _leads_somewhere(document, link)] == []


def _leads_somewhere(document: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = document.parent / path if path else document
    return is_of_removed_sample(path) or (target.exists() and (not heading or heading in _headings(target)))


def _headings(document: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub generates them."""
    titles = re.findall(r"^#+ (.+)$", prose(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", MARKDOWN_FILES)
def test_lines_have_at_most_120_characters(document: Path) -> None:
    """120 characters, except for table rows, links, and code blocks."""
    lines = [line for line in prose(document).splitlines() if not line.startswith("|")]
    bare = [re.sub(r"\]\([^)\s]+\)|https?://\S+", "", line) for line in lines]
    assert [line for line in bare if len(line) > _MOST_COLUMNS] == []
