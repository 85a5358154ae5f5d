"""Compares the locks of declared queues with the time that steps behind them have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import isodate

from functions.agents.steps import lock_warnings
from functions.workflows import registry


def long_locks(queues_file: Path) -> list[str]:
    """Name the steps of this application that have less than twice their queue's lock, with both figures."""
    workflows = [each for registration in registry.load_registrations() for each in registration.versions]
    return list(lock_warnings(workflows, declared_locks(queues_file)))


def declared_locks(queues_file: Path) -> Mapping[str, float]:
    """Read the locks of the queues in a file like `infra/queues.json`, in seconds."""
    declared = json.loads(queues_file.read_text(encoding="utf-8"))["queues"]
    return {
        each["name"]: isodate.parse_duration(each["properties"]["lockDuration"]).total_seconds()
        for each in declared
        if "lockDuration" in each["properties"]
    }
