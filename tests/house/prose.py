"""Find phrases and names that are not plain, in the words of CONTRIBUTING.md ("How to write").

    python -m tests.house.prose [PATH …]

Reads Markdown files, docstrings, comments, and the names of modules, classes and functions. It finds
patterns, not meaning. Each folder may have one place per 1,000 lines. A line of `.prose-allow` is an
exception: a path, a colon, and the start of the text. Exit code 1: a folder has more, or an exception is
not needed.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.house.budgets import tracked
from tests.house.documents import ROOT

FOLDERS = ("functions", "docs", "local", "packages", "tests", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
MOST_EXCEPTIONS = 20
_EXCEPTIONS = ROOT / ".prose-allow"

#: Phrases by the advice on what to write instead. A phrase begins at a word.
_PHRASES = {
    "name the thing": (
        r"(?:^|(?<=[.;:(] ))(?:what|whatever|whoever|who)\b.{0,80}?\b(?:is|are|has|was|were|may|does|gets)\b",
        r"(?:of|for|with|than|from|by|to|beside|in) (?:what|whatever|whoever|those who)\b",
        r"(?:nobody|somebody|no one|none of (?:it|them)|nothing else)\b",
    ),
    "name the parameter or the number": (r"so (?:many|much|long|often|late|few)\b(?! (?:that|as))",),
    "say which one": (r"of (?:before|now|later)\b", r"the one before\b", r"as before\b"),
    "use the technical verb": (
        r"(?:^|(?<=\. ))(?:gives?|tells?) (?:the|a|an|all|each|its|what|back|whether|how)\b",
        r"(?:is|are|was|were|be) told\b",
        r"(?:go|goes|going|gone|went) on\b",
        r"(?:hears? of|heard of|asks? (?:for|whether)|speaks? of|knows? (?:of|nothing)|gives? up|given up)\b",
        r"(?:stands?|stood) (?:on|in|at|for|behind|beside|there)\b",
    ),
    "start with the subject": (r"(?-i:(?:^|(?<=[.;:] ))(?:Of|Beside|Beyond|Behind)) [a-z][^,.]{3,60}, ",),
    "use a common word": (
        r"(?:anew|henceforth|thereof|whereof|in vain|lest|hence|upon|all the same|as good as|for good)\b",
        r"by (?:itself|themselves)\b",
    ),
}
_SENTENCES = {
    advice: re.compile(rf"\b(?:{'|'.join(found)})", re.IGNORECASE) for advice, found in _PHRASES.items()
}
#: Words that no name may contain.
_WORDS = set[str]()
for _words in (
    "anew asking awaited birth breaches came crowd crowds damage easing entrance gist gone handover heard",
    "hiding ignored known leftovers let mend mended neighbour outside patience pile prospects reach remedy",
    "remembered shape shown signs silence silent stranger takers teller told turn turns untold untried vain",
    "wanted whole wish",
):
    _WORDS.update(_words.split())
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Place(NamedTuple):
    """A text at a line of a file."""

    path: Path
    line: int
    text: str


def places(path: Path, text: str) -> Iterator[tuple[Place, str]]:
    """Yield each place of a file that is not plain, with the advice."""
    for line, sentence in _markdown(text) if path.suffix == ".md" else _comments(text):
        advice = next((each for each, pattern in _SENTENCES.items() if pattern.search(sentence)), None)
        if advice is not None:
            yield Place(path, line, sentence), advice
    for line, name in () if path.suffix == ".md" else _names(path, text):
        if not _WORDS.isdisjoint(word.lower() for word in _WORD.findall(name)):
            yield Place(path, line, name), "use the field's word in a name"


def _markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines outside code blocks, without code and addresses."""
    is_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "", line)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of docstrings and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (ast.get_docstring(node) or "").splitlines()
            yield from ((node.body[0].lineno + number, line) for number, line in enumerate(lines))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")


def _names(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """Yield the names of the module, its classes and its functions."""
    yield 1, path.stem
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from () if node.name.startswith("test_") else [(node.lineno, node.name)]


def main() -> int:
    """Print the places of each folder that are no exceptions, and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("paths", nargs="*", default=FOLDERS)
    paths = parser.parse_args().paths
    lines = _EXCEPTIONS.read_text(encoding="utf-8").splitlines()
    exceptions = [line for line in lines if line.strip() and not line.startswith("#")]
    unused, code = set(exceptions), int(len(exceptions) > MOST_EXCEPTIONS)
    for folder in paths:
        files = [each for each in tracked(folder) if each.suffix in {".md", ".py"}]
        texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in files}
        count, size = 0, sum(len(text.splitlines()) for text in texts.values())
        for place, advice in (found for path, text in texts.items() for found in places(path, text)):
            entry = f"{place.path}: {place.text}"
            allowed = [each for each in exceptions if entry.startswith(each)]
            unused -= set(allowed)
            if not allowed:
                count += 1
                print(f"{place.path}:{place.line}: {place.text.strip()[:90]}  ({advice})")
        if count * 1_000 > size:
            print(f"{folder}: {count} places in {size:,} lines; 1 per 1,000 lines is allowed")
            code = 1
    if unused and tuple(paths) == FOLDERS:
        print(f"{_EXCEPTIONS.name}: not needed: {'; '.join(sorted(unused))}")
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main())
