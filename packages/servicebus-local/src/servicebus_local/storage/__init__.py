"""The log on disk: an SQLite file, and one commit for all writes of one iteration of the event loop."""

from __future__ import annotations
