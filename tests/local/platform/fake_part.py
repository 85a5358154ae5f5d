"""A small stand-in for a part: answers every GET with its process id, and misbehaves on request.

Run as a program: `fake_part.py PORT [ignore-sigterm] [with-child] [die-at-start] [die-after-answer]
[after=PORT]`; a GET of `/die` ends it with code 3.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Answer with the process id."""
        if self.path == "/die":
            _say("fatal: the fake dies on request")
            os._exit(3)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(os.getpid()).encode())
        if "die-after-answer" in sys.argv:
            self.wfile.flush()
            os._exit(3)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the base class names it so
        """Print nothing for each request."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _stop(*_: object) -> None:
    _say("fake part stops")
    sys.exit(0)


def _ignore(*_: object) -> None:
    _say("fake part ignores SIGTERM")


def _wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


def main(port: int, behaviour: set[str]) -> None:
    """Serve until SIGTERM."""
    signal.signal(signal.SIGTERM, _stop)
    if "ignore-sigterm" in behaviour:
        signal.signal(signal.SIGTERM, _ignore)
    if "with-child" in behaviour:
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    _say(f"fake part on {port}")
    if "die-at-start" in behaviour:
        sys.exit("fatal: a setting is missing")
    for other in (each.removeprefix("after=") for each in behaviour if each.startswith("after=")):
        _wait_for(int(other))
    HTTPServer(("127.0.0.1", port), _Answer).serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]), set(sys.argv[2:]))
