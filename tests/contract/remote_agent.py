"""The Agent in Python of `docs/agents/`, run as a reader would run it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Self

from tests.house.documents import ROOT

AGENT = ROOT / "docs/agents/python/payment_agent.py"


class RemoteAgent:
    """A process of its own, with its own folder, and a connection to Service Bus."""

    def __init__(self, folder: Path, connection: str) -> None:
        self._ledger = folder / "payments.db"
        self._process = subprocess.Popen(
            [sys.executable, str(AGENT)], cwd=folder, env={**os.environ, "ServiceBusConnection": connection}
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        running = self._process.poll() is None
        self._process.kill()
        self._process.wait()
        assert running, "the Agent has exited"

    def payments(self) -> dict[str, str]:
        """Return the state of each payment in its ledger, by the key that do and undo share."""
        return dict(self._rows("SELECT key, state FROM payments"))

    def effects(self) -> dict[str, int]:
        """Count what moved money, by the effect keys."""
        return dict(self._rows("SELECT effect_key, count(*) FROM movements GROUP BY effect_key"))

    def _rows(self, query: str) -> list[tuple[str, Any]]:
        with closing(sqlite3.connect(self._ledger)) as ledger:
            return ledger.execute(query).fetchall()
