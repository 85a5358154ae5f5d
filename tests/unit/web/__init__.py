"""Tests of what the HTTP applications share."""

from __future__ import annotations
