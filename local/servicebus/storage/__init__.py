"""The log on disk: SQLite with one commit for everything that arrived in one turn of the event loop."""

from __future__ import annotations
