"""Reads the project's documents: their code blocks and their prose."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

#: Folders without files of ours, like every folder whose name begins with a dot, except `.github`.
_NOT_OURS = frozenset({"node_modules", "__pycache__", "build"})

#: The sample workflows, which an adopter may delete together with their tests.
SAMPLES = ("orders", "deliveries")

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


def is_of_removed_sample(path: str) -> bool:
    """Return whether a path is in a folder of a sample workflow that was deleted."""
    removed = [name for name in SAMPLES if not (ROOT / "functions/workflows" / name).exists()]
    return any(f"workflows/{name}/" in f"{path}/" for name in removed)


def is_of_added_workflow(path: Path) -> bool:
    """Return whether a path is in a folder of a workflow that is no sample."""
    _, _, place = str(path).partition("workflows/")
    return "/" in place and not place.startswith(SAMPLES)


def documents() -> list[Path]:
    """Return the documents at the root, every document below `docs/`, and `tests/README.md`."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "tests/README.md"]


def markdown_files() -> list[Path]:
    """Return every Markdown file of the project, packages included."""
    return sorted(path for path in our_files() if path.suffix == ".md")


def our_files() -> set[Path]:
    """Return every file of the project, except those that tools install or generate."""
    found = set[Path]()
    for folder, folders, files in ROOT.walk():
        folders[:] = [name for name in folders if name not in _NOT_OURS and not _is_hidden(name)]
        found |= {folder / name for name in files}
    return found


def code_blocks(document: str) -> list[CodeBlock]:
    """Return a document's code blocks, in order; `document` is its path in the project."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [CodeBlock(found["language"], found["file"], found["text"]) for found in _BLOCK.finditer(text)]


def shell_commands(document: str) -> list[str]:
    """Return the commands in a document's shell blocks; lines joined by a backslash are one command."""
    blocks = [block.text for block in code_blocks(document) if block.language == "sh"]
    joined = "".join(blocks).replace("\\\n", "")
    return [line for line in joined.splitlines() if line]


def prose(document: Path) -> str:
    """Return a document's text without its code blocks."""
    return re.sub(
        r"^[ ]*```.*?^[ ]*```$", "", document.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".") and folder != ".github"
