"""Tests of taking submissions in."""

from __future__ import annotations
