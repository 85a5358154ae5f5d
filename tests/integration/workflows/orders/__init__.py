"""Tests of the workflow `orders`."""

from __future__ import annotations
