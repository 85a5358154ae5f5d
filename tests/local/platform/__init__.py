"""Tests of starting, watching and stopping the parts of the local platform."""

from __future__ import annotations
