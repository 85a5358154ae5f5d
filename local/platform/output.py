"""What the parts print: read line by line, and written to stderr as one log."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import BinaryIO, Self

from local.platform.parts import PartName

_CHUNK = 65_536
_COLOURS = {
    PartName.AZURITE: "\033[36m",
    PartName.BROKER: "\033[35m",
    PartName.HOST: "\033[33m",
    PartName.SCHEDULER: "\033[32m",
    PartName.AGENTS: "\033[34m",
    PartName.SUPERVISOR: "\033[95m",
    PartName.AGENT: "\033[34m",
}
_PLAIN = "\033[0m"
_WIDTH = max(map(len, PartName))


def log_line(part: PartName, line: str) -> None:
    """Write one line of `part` after its name. A reader that has gone (`2>&1 | head`) stops no part."""
    prefix = f"{part:<{_WIDTH}} |"
    if _coloured():
        prefix = f"{_COLOURS[part]}{prefix}{_PLAIN}"
    # `sys.stderr` is looked up each time: a live display replaces it, to keep lines above itself.
    with suppress(BrokenPipeError):
        print(prefix, line, file=sys.stderr, flush=True)


def _coloured() -> bool:
    """Whether stderr is a terminal whose user has not set NO_COLOR (https://no-color.org)."""
    return sys.stderr.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class OutputPipe:
    """A pipe for the output of one process: use it as a context manager while that process is created.

    Not asyncio's own pipe: its process counts as ended only at the end of the pipe, which a child that
    outlives the part keeps open. The process gets the read end too, without using it: the pipe then still
    works when the platform is killed, and printing while stopping is no error. Azurite would otherwise end
    at its first line, before it has saved.
    """

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self._reader: BinaryIO = os.fdopen(self.read_end, "rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        os.close(self.write_end)
        if kind:
            self._reader.close()

    async def lines(self) -> AsyncIterator[str]:
        """Yield the lines, without their ends, until no process holds the write end any more."""
        stream = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(stream), self._reader
        )
        try:
            rest = b""
            while chunk := await stream.read(_CHUNK):
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield _text(line)
            if rest:
                yield _text(rest)
        finally:
            transport.close()


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
