"""Tests of the callers' HTTP interface."""

from __future__ import annotations
