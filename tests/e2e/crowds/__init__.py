"""Crowds on real processes: `python -m tests.e2e.crowds` proves what is promised of them, at full size."""

from __future__ import annotations
