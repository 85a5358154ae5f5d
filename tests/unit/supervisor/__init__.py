"""Tests of the Supervisor."""

from __future__ import annotations
