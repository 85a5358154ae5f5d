"""The Agent `payment`, alone."""

from __future__ import annotations
