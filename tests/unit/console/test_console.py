"""The console's page, files, colours and pictures, as far as no browser is needed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import functions.console
from functions.wiring import console_application
from tests.fakes.asgi import AsgiClient
from tests.unit.api.scene import problem


@pytest.fixture
def browser() -> AsgiClient:
    """Ask the application as a browser does."""
    return AsgiClient(console_application())


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("", "text/html; charset=utf-8"),
        ("/console/main.js", "text/javascript; charset=utf-8"),
        ("/console/theme.css", "text/css; charset=utf-8"),
        ("/console/icon.svg", "image/svg+xml"),
    ],
)
async def test_page_and_files_are_kept_from_harm(browser: AsgiClient, path: str, media_type: str) -> None:
    """The policy allows scripts, styles and data of the application only, and no frames."""
    answer = await browser.get(f"/api/ops{path}")
    assert (answer.status, answer.headers["content-type"]) == (200, media_type)
    assert answer.headers["content-security-policy"].split("; ") == [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ]
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-cache"
    known = AsgiClient(console_application(), {"If-None-Match": answer.headers["etag"]})
    assert (await known.get(f"/api/ops{path}")).status == 304


@pytest.mark.parametrize("name", ["secret.js", "..%2Fapplication.py", "__init__.py"])
async def test_console_serves_only_its_own_files(browser: AsgiClient, name: str) -> None:
    """Names are looked up among the files, never on the disk."""
    problem(await browser.get(f"/api/ops/console/{name}"), 404)


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
def test_scripts_import_existing_names(script: Path) -> None:
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


def test_nothing_is_loaded_from_another_origin() -> None:
    """All files are the application's own; an XML namespace is no address."""
    for path in FOLDER.iterdir():
        addresses = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[\w/.]*", path.read_text(encoding="utf-8"))
        assert {each for each in addresses if each != "http://www.w3.org/2000/svg"} == set(), path.name


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_files_have_one_subject(path: Path) -> None:
    """So they are short."""
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


_THEME = (Path(functions.console.__file__).parent / "static" / "theme.css").read_text(encoding="utf-8")

#: Contrast of text (WCAG 2.2, 1.4.3), and of graphics (1.4.11).
TEXT = 4.5
DRAWN = 3.0

_TONES = ("good", "bad", "late", "undone", "calm")
_TEXTS = [
    *((tone, ground) for tone in ("text", "quiet", "accent", *_TONES) for ground in ("surface", "ground")),
    *((tone, f"{tone}-tint") for tone in _TONES),
    *(("text", f"{tone}-tint") for tone in (*_TONES, "active")),
    ("accent", "active-tint"),
    ("on-accent", "accent"),
]
_DRAWN = [("line-strong", "surface"), ("quiet", "calm-tint"), ("accent", "ground")]


def _colours(scheme: str) -> dict[str, str]:
    """Read the colours of a scheme; the dark ones come second in the file."""
    light, _, dark = _THEME.partition("@media (prefers-color-scheme: dark)")
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light if scheme == "light" else dark))


def _luminance(colour: str) -> float:
    """Return the relative luminance (WCAG 2.2, "relative luminance")."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), _TEXTS)
def test_text_has_enough_contrast(scheme: str, front: str, back: str) -> None:
    """On each background."""
    colours = _colours(scheme)
    assert _contrast(colours[front], colours[back]) >= TEXT


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("front", "back"), _DRAWN)
def test_borders_and_marks_have_enough_contrast(scheme: str, front: str, back: str) -> None:
    """Fields' borders, marks and outlines."""
    colours = _colours(scheme)
    assert _contrast(colours[front], colours[back]) >= DRAWN


_IMAGES = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 256 * 1024


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["overview", "list", "task", "question"])
def test_every_view_has_its_pictures(view: str, scheme: str) -> None:
    """PNG, and small enough for a page."""
    content = (_IMAGES / f"console-{view}-{scheme}.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    assert len(content) <= MOST_BYTES
