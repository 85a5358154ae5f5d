"""Test doubles: clock, store, queues, workflows."""

from __future__ import annotations
