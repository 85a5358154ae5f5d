"""Tests against the real Azurite."""

from __future__ import annotations
