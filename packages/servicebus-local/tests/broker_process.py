"""A broker in a process of its own, for tests that kill it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Self

_READY = re.compile(r"^ready: sb://127\.0\.0\.1:(\d+) admin: http://127\.0\.0\.1:(\d+)\n$")


def command(config: Path, data: Path, port: int = 0, admin_port: int = 0) -> list[str]:
    """Return the command line of a broker."""
    options = {"--config": config, "--data": data, "--port": port, "--admin-port": admin_port}
    words = [str(word) for option in options.items() for word in option]
    return [sys.executable, "-m", "servicebus_local", *words]


class BrokerProcess:
    """A started broker; as a context manager it is killed at the end."""

    def __init__(self, words: list[str], standard_input: str = "") -> None:
        self._process = subprocess.Popen(
            words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(standard_input)
        self._process.stdin.close()
        line = self._process.stdout.readline()
        match = _READY.match(line)
        assert match, f"no ready line: {line!r}"
        self.port, self.admin_port = int(match[1]), int(match[2])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def kill(self) -> None:
        """Kill it with -9, and free its port."""
        if self._process.poll() is None:
            self._process.kill()
            self._end()

    def terminate(self) -> tuple[int, str]:
        """Stop it with SIGTERM, and return its exit code and what else it printed."""
        self._process.terminate()
        return self._end()

    def _end(self) -> tuple[int, str]:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            code = self._process.wait(timeout=60)
            return code, output.read()


def environment(**extra: str) -> dict[str, str]:
    """Return an environment that does not look like Azure."""
    return {key: value for key, value in os.environ.items() if key != "WEBSITE_INSTANCE_ID"} | extra
