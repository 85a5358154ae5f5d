"""Tests that start no process; the folders mirror functions/."""

from __future__ import annotations
