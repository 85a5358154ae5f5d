"""Event hub triggers: readers of partitions, checkpoints in Blob Storage as the extension writes them."""

from __future__ import annotations
