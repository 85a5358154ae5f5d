"""Keeps the evidence of a run in a file, for whoever has to find out why an invariant did not hold."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic_core import to_json

from tests.chaos.evidence.evidence import Evidence

#: Beside the parts' log and state.
FILE_NAME = "evidence.json"


def keep(evidence: Evidence, found: Sequence[object], folder: Path) -> Path:
    """Write what was seen, and what of it is a violation, into a folder; return the file."""
    file = folder / FILE_NAME
    seen = {
        "violations": found,
        "settling": evidence.settling,
        "clocks": evidence.told.clocks,
        "orders": evidence.plan.orders,
        "tasks": evidence.tasks,
        "observations": evidence.observations,
        "asked": evidence.asked,
        "calls": evidence.calls,
        "notices": evidence.notices,
        "alerts": evidence.alerts,
        "rejected": evidence.rejected,
    }
    file.write_bytes(to_json(seen, indent=1, fallback=repr, bytes_mode="base64"))
    return file
