"""The engine's view of the app: which Durable functions there are, and how one is run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class DurableFunction:
    """One orchestrator or activity of the app."""

    #: The Durable name: the override given in the decorator, else the function's name.
    name: str
    #: The function to invoke.
    function: str
    #: The function's parameter that takes the payload.
    parameter: str


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned."""

    #: The JSON text of what it returned; None or "null" for nothing.
    json: str | None


@dataclass(frozen=True, slots=True)
class Raised:
    """The function raised an exception."""

    #: The worker's text of it, for example "ValueError: boom".
    message: str
    stack: str


class Invoke(Protocol):
    """Runs one function of the app. It raises only for faults of the host itself; those are tried again."""

    async def __call__(self, function: str, parameter: str, payload: str) -> Returned | Raised:
        """Run the function with the JSON text `payload` in its parameter."""


class FunctionTable:
    """Durable functions by name, case-insensitively as in Azure."""

    def __init__(self, functions: Iterable[DurableFunction]) -> None:
        self._by_name = {function.name.lower(): function for function in functions}

    def get(self, name: str) -> DurableFunction | None:
        """Return the function of that name, or None."""
        return self._by_name.get(name.lower())
