"""Tests of the local Functions host."""

from __future__ import annotations
