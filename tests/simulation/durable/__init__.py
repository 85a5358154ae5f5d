"""Durable Functions: instances, their histories, activities and timers."""

from __future__ import annotations
