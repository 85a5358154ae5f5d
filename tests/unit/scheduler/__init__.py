"""Tests of the Scheduler."""

from __future__ import annotations
