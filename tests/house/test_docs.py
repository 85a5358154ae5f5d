"""What the documents name is there: files, folders, tests, and the places that links lead to."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.documents import ROOT, code_blocks, documents, prose

_QUOTED = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[\w.-]+(/[\w.-]+)*/?")
_FILE_TYPES = frozenset({"py", "md", "json", "toml", "yaml", "yml", "txt", "bicep", "html", "ini", "cfg"})
_TEST = re.compile(r"test_\w+")
_TEST_OF_FILE = re.compile(r"`([\w/]+\.py)` `(test_\w+|Test\w+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_ELSEWHERE = ("http://", "https://", "mailto:")

#: Where a path that is named begins; documents on tests leave `tests/` out.
_BASES = (ROOT, ROOT / "tests")
#: Workflows that a reader may remove; what documents say of their folders then leads nowhere.
_SAMPLES = ("orders", "deliveries")
#: What a developer makes.
_MADE_LATER = frozenset({"local.settings.json"})
#: Folders with nothing of ours in them.
_NOT_OURS = frozenset({"node_modules", "__pycache__"})

DOCUMENTS = [pytest.param(path, id=str(path.relative_to(ROOT))) for path in documents()]


@cache
def _names() -> frozenset[str]:
    """Give the name of every file and folder of ours."""
    found = set[str]()
    for folder, folders, files in ROOT.walk():
        folders[:] = [name for name in folders if name not in _NOT_OURS and not name.startswith(".")]
        found |= {folder.name, *files}
    return frozenset(found)


@cache
def _tests() -> frozenset[str]:
    """Give the name of every test function."""
    files = (ROOT / "tests").rglob("test_*.py")
    texts = (path.read_text(encoding="utf-8") for path in files)
    return frozenset(name for text in texts for name in re.findall(r"def (test_\w+)\(", text))


def _is_path(quoted: str) -> bool:
    """Tell a path from other things in code style: by its file type, or by a folder of ours."""
    if not _PATH.fullmatch(quoted) or quoted.startswith("."):
        return False
    if quoted.rpartition(".")[2] in _FILE_TYPES:
        return True
    return "/" in quoted and any((base / quoted.partition("/")[0]).is_dir() for base in _BASES)


def _is_there(path: str) -> bool:
    return (
        _is_removed(path)
        or any((base / path).exists() for base in _BASES)
        or ("/" not in path and path in _names())
    )


def _is_removed(path: str) -> bool:
    removed = [name for name in _SAMPLES if not (ROOT / "functions/workflows" / name).exists()]
    return any(f"workflows/{name}/" in path for name in removed)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_exist(document: Path) -> None:
    """From the root or from `tests/`, or by a bare name; what a tutorial has its reader make is exempt."""
    made = _MADE_LATER | {block.file for block in code_blocks(str(document.relative_to(ROOT)))}
    named = {quoted for quoted in _QUOTED.findall(prose(document)) if _is_path(quoted)} - made
    assert sorted(path for path in named if not _is_there(path)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tests_exist(document: Path) -> None:
    """Every test that is named is there, and in the file that is named before it."""
    text = prose(document)
    named = {quoted for quoted in _QUOTED.findall(text) if _TEST.fullmatch(quoted)}
    assert sorted(named - _tests()) == []
    astray = [(file, name) for file, name in _TEST_OF_FILE.findall(text) if not _holds(file, name)]
    assert astray == []


def _holds(file: str, test: str) -> bool:
    path = next((base / file for base in _BASES if (base / file).exists()), None)
    if path is None:  # a bare name, which another test looks for
        return True
    return re.search(rf"\b{test}\b", path.read_text(encoding="utf-8")) is not None


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: Path) -> None:
    """To a file, and to a heading in it where one is named."""
    links = [link for link in _LINK.findall(prose(document)) if not link.startswith(_ELSEWHERE)]
    assert [link for link in links if not _leads_somewhere(document, link)] == []


def _leads_somewhere(document: Path, link: str) -> bool:
    path, _, heading = link.partition("#")
    target = document.parent / path if path else document
    return _is_removed(path) or (target.exists() and (not heading or heading in _headings(target)))


def _headings(document: Path) -> set[str]:
    """Give the anchors of a document's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", prose(document), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
