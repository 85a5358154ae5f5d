"""Tests of the state store's keys."""

from __future__ import annotations
