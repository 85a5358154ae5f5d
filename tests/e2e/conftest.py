"""Leaves out the folders whose applications serve the sample workflow `orders`, if it was deleted."""

from __future__ import annotations

from functions.workflows.registry import FOLDERS

collect_ignore = [] if "orders" in FOLDERS else ["console", "hub", "recovery", "telemetry"]
