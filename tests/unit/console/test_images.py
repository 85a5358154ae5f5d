"""The pictures that the documentation shows: `make screenshots` takes them anew."""

from __future__ import annotations

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "docs" / "images"
MOST_BYTES = 256 * 1024


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("view", ["overview", "list", "task", "question"])
def test_every_view_has_its_pictures(view: str, scheme: str) -> None:
    """PNG, and small enough for a page."""
    content = (FOLDER / f"console-{view}-{scheme}.png").read_bytes()
    assert content.startswith(b"\x89PNG\r\n")
    assert len(content) <= MOST_BYTES
