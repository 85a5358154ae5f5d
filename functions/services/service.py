"""What a sample service is: its name, and what adds its routes when the first request comes."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from functions.core.step_definition import Json
from functions.core.workflow_definition import DefinitionError

if TYPE_CHECKING:
    from fastapi import APIRouter

    from functions.services.resources import Resources

FAULTS_TABLE = "ServiceFaults"

SERVICES_PATH = "/api/services"

#: Names become names of tables; these are the state store's own, or have a meaning in the path.
_NAME = re.compile("[a-z]{3,32}")
_TAKEN = frozenset({"tasks", "rejected", "faults"})


@dataclass(frozen=True, slots=True)
class SampleService:
    """A sample service: its name in the path, and its routes. Raises `DefinitionError` for a wrong name."""

    name: str
    add_routes: Callable[[APIRouter, Resources], None]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or self.name in _TAKEN:
            raise DefinitionError(
                f"sample service '{self.name}': its name must be 3 to 32 letters from a to z, and neither of"
                f" {', '.join(sorted(_TAKEN))}"
            )

    @property
    def table(self) -> str:
        """The table with the service's resources."""
        return self.name.capitalize()


def booking_service[Order: BaseModel](
    name: str, order_model: type[Order], confirm: Callable[[str, Order], Json] = lambda _id, _order: {}
) -> SampleService:
    """Make a service of bookings (`PUT`, `GET`, `DELETE`); pure `confirm` adds fields by the booking's id."""

    def add_routes(router: APIRouter, bookings: Resources) -> None:
        from functions.services.resources import add_booking_routes  # noqa: PLC0415 - with the first request

        add_booking_routes(router, bookings, order_model, confirm)

    return SampleService(name, add_routes)


def service_tables(services: Collection[SampleService]) -> tuple[str, ...]:
    """Name the tables that must exist for the sample services, if there are any."""
    return (FAULTS_TABLE, *(service.table for service in services)) if services else ()
