"""Tests of the workflows and their registry."""

from __future__ import annotations
