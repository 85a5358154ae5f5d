"""The folders of all workflows that are served. Add a line for each new workflow."""

from __future__ import annotations

from collections.abc import Sequence

from functions.workflows.registration import Registration, load_registration

FOLDERS: Sequence[str] = [
    "orders",
    "deliveries",
]


def load_registrations() -> tuple[Registration, ...]:
    """Load every workflow. Raises `DefinitionError` with the folder and the fix."""
    return tuple(map(load_registration, FOLDERS))
