"""Starts a part's program in its own place, once a line says that the watchdog knows its process.

If the platform is killed before that, there is no line, and nothing starts. It is no shell's script: a shell
may keep only variables that it could name itself, and lose `AzureWebJobs.supervisor.Disabled`.

This file is the program of that process, so it imports only the standard library.
"""

from __future__ import annotations

import os
import signal
import sys

if __name__ == "__main__" and sys.stdin.readline():
    for each in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program inherits that
        signal.signal(each, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606 - there is to be no shell
