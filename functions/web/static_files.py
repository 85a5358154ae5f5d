"""Files of ours that browsers get, read once at start, with headers that keep strange scripts out."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from fastapi import Response

#: What browsers are told of a file; only such files are served, and nothing is guessed.
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    # Kept, and asked for again by its tag: a new version is seen at once.
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """One file; `tag` changes with its content."""

    content: bytes
    media_type: str
    tag: str

    def answer(self, known_tag: str | None, policy: str) -> Response:
        """Answer with the file, or with 304 to who has it; `policy` is the Content-Security-Policy."""
        headers = {**_HEADERS, "Content-Security-Policy": policy, "ETag": self.tag}
        if known_tag == self.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(self.content, media_type=self.media_type, headers=headers)


def static_files(folder: Path) -> Mapping[str, StaticFile]:
    """Read all files of a folder, by name: what a request names is looked up here, never on the disk."""
    return {path.name: static_file(path) for path in sorted(folder.iterdir()) if path.suffix in _TYPES}


def static_file(path: Path) -> StaticFile:
    """Read one file. Raises `KeyError` for a type that is not served, and `OSError`."""
    content = path.read_bytes()
    return StaticFile(content, _TYPES[path.suffix], f'"{hashlib.sha256(content).hexdigest()[:32]}"')
