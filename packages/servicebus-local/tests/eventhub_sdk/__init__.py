"""Runs the live tests of azure-eventhub itself against the broker: `python -m tests.eventhub_sdk`."""

from __future__ import annotations
