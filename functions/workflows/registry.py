"""Every workflow that is served: add its folder here, and remove it here when the folder goes."""

from __future__ import annotations

from collections.abc import Sequence

from functions.workflows.registration import Registration, load_registration

FOLDERS: Sequence[str] = [
    "orders",
    "deliveries",
]


def load_registrations() -> tuple[Registration, ...]:
    """Load every workflow. Raises `DefinitionError`, which names the folder and the fix."""
    return tuple(map(load_registration, FOLDERS))
