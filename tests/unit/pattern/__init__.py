"""Tests of the core: 100 % of its branches."""

from __future__ import annotations
