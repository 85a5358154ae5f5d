"""Tests of the Agents and of what runs them."""

from __future__ import annotations
