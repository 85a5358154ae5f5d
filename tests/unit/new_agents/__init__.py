"""Tests of the Agents."""

from __future__ import annotations
