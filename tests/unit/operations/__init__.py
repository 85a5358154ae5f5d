"""Tests of the operators' side."""

from __future__ import annotations
