"""The definition of a sample service. `sample_application.py`, imported with the first request, serves it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from functions.core.definition.definition_checks import DefinitionError
from functions.core.definition.step_definition import Json

FAULTS_TABLE = "ServiceFaults"

SERVICES_PATH = "/api/services"

#: A name is also the name of a table. Taken are tables of the state store, and a word of the path.
_NAME = re.compile("[a-z]{3,32}")
_TAKEN = frozenset({"tasks", "rejected", "faults"})


@dataclass(frozen=True, slots=True)
class SampleService:
    """A service of bookings (`PUT`, `GET`, `DELETE`). Raises `DefinitionError` for a wrong name.

    `confirm` is pure and adds fields by the booking's id. With a `default`, `GET` returns it if there is no
    booking, and nothing is deleted.
    """

    name: str
    model: type[BaseModel]
    confirm: Callable[[str, Any], Json] = lambda _id, _order: {}
    default: Json | None = None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise DefinitionError(
                f"sample service '{self.name}': its name must be 3 to 32 letters from a to z, and none of"
                f" {', '.join(sorted(_TAKEN))}"
            )

    @property
    def table(self) -> str:
        """Return the name of the table with the service's resources."""
        return self.name.capitalize()


def service_tables(services: Collection[SampleService]) -> tuple[str, ...]:
    """Return the names of the tables that the sample services need."""
    return (FAULTS_TABLE, *(service.table for service in services)) if services else ()
