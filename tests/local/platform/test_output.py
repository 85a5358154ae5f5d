"""The log names the part on every line, with colour only on a terminal."""

from __future__ import annotations

import io
import sys

import pytest

from local.platform import PartName
from local.platform.output import log_line


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        """Claim to be a terminal."""
        return True


class _GoneReader(io.StringIO):
    def write(self, _: str) -> int:
        """Fail like a pipe whose reader has gone."""
        raise BrokenPipeError


def _written(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, part: PartName = PartName.HOST) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    log_line(part, "started")
    return stream.getvalue()


def test_every_line_begins_with_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal there is no colour."""
    assert _written(monkeypatch, io.StringIO()) == "host       | started\n"


def test_a_terminal_gets_a_coloured_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the prefix is coloured: the part's own colours stay."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _written(monkeypatch, _Terminal()) == "\033[33mhost       |\033[0m started\n"


@pytest.mark.parametrize("part", PartName)
def test_every_part_has_a_colour(part: PartName, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of single roles too."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert _written(monkeypatch, _Terminal(), part).startswith("\033[")


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    """As https://no-color.org asks."""
    monkeypatch.setenv("NO_COLOR", "1")
    assert _written(monkeypatch, _Terminal()) == "host       | started\n"


def test_a_reader_that_has_gone_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """`2>&1 | head` ends the log, not the platform."""
    _written(monkeypatch, _GoneReader())
