"""What a part prints, line by line.

The pipe is our own: `asyncio`'s process waits for the end of the pipes that it makes itself, and a child
that a dead part left behind would keep those open, so that nobody would see the part die.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import BinaryIO, Self

_CHUNK = 65_536


class OutputPipe:
    """A pipe for the output of one process: use it as a context manager while that process is made.

    The process gets the read end too, which it does not use. So the pipe still holds when the platform is
    killed, and what the part prints while it stops is no error: Azurite would end at its first word, before
    it has saved.
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
        """Give the lines, without their ends, until nobody holds the write end any more."""
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
