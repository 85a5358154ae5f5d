"""`python -m local bench`."""

from __future__ import annotations
