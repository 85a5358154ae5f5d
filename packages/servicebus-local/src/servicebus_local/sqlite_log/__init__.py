"""An SQLite file as a part's durable log: one owner at a time, quick commits, checkpoints beside them.

The broker keeps its messages in one, the Durable engine its instances. How commits are grouped, and what a
failed one means, is each part's own affair.
"""

from __future__ import annotations

from servicebus_local.sqlite_log.log import LogRefusedError, SqliteLog, Statement, Synchronous
from servicebus_local.sqlite_log.schema import Schema

__all__ = ["LogRefusedError", "Schema", "SqliteLog", "Statement", "Synchronous"]
