"""Tests of the workflow `deliveries`."""

from __future__ import annotations
