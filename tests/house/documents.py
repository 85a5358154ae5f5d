"""Reads the project's documents: their blocks of code, and what their prose names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(
    r"(?:^\*\*`(?P<file>[^`\n]+)`\*\*[^\n]*\n\n)?^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """A fenced block; `file` is the path that the bold line above it gives, or None."""

    language: str
    file: str | None
    text: str


def documents() -> list[Path]:
    """Give the README and every document below `docs/`."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def code_blocks(document: str) -> list[CodeBlock]:
    """Give a document's blocks of code, in their order; `document` is its path in the project."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [CodeBlock(found["language"], found["file"], found["text"]) for found in _BLOCK.finditer(text)]


def prose(document: Path) -> str:
    """Give a document's text without its blocks of code."""
    return re.sub(
        r"^[ ]*```.*?^[ ]*```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
