"""Table Storage, as azure-core's transport meets it."""

from __future__ import annotations
