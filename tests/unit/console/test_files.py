"""The console's own scripts and page keep to the rules that its policy relies on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import functions.console

FOLDER = Path(functions.console.__file__).parent / "static"
SCRIPTS = sorted(FOLDER.glob("*.js"))
PAGE = (FOLDER / "index.html").read_text(encoding="utf-8")
MOST_LINES = 200

_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment"
    r"|\beval\(|new Function|\.style\b"
)
_IMPORT = re.compile(r'^import (?:\{(?P<names>[^}]*)\}|\* as \w+) from "\./(?P<file>[\w.]+)";$', re.MULTILINE)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_make_nothing_out_of_text_but_text(script: Path) -> None:
    """No markup, no code and no style comes from a text."""
    assert _MARKUP.findall(script.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_import_what_is_there(script: Path) -> None:
    """A name that a module does not export would keep the whole console from starting."""
    for found in _IMPORT.finditer(script.read_text(encoding="utf-8")):
        imported = (FOLDER / found["file"]).read_text(encoding="utf-8")
        exported = set(
            re.findall(r"^export (?:async )?(?:function|const|class) (\w+)", imported, re.MULTILINE)
        )
        assert {name.strip() for name in (found["names"] or "").split(",") if name.strip()} <= exported


def test_every_file_is_used() -> None:
    """By the page, or by a script."""
    used = set(re.findall(r'/api/ops/console/([\w.]+)"', PAGE)) | {"index.html"}
    for script in SCRIPTS:
        used |= {found["file"] for found in _IMPORT.finditer(script.read_text(encoding="utf-8"))}
    assert used == {path.name for path in FOLDER.iterdir()}


def test_page_has_no_script_nor_style_of_its_own() -> None:
    """The policy would refuse them."""
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|javascript:", PAGE) == []


def test_nothing_comes_from_elsewhere() -> None:
    """Whatever is loaded is ours; an XML namespace is no address."""
    for path in FOLDER.iterdir():
        addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/.]*", path.read_text(encoding="utf-8"))
        assert {each for each in addresses if each != "http://www.w3.org/2000/svg"} == set(), path.name


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_files_have_one_subject(path: Path) -> None:
    """So they are short."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES
