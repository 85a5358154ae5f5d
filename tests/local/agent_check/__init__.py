"""`python -m local agent-check`."""

from __future__ import annotations
