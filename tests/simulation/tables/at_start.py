"""The client that prepares the tables, before there is an event loop: no fault meets it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from azure.core.pipeline.transport import HttpTransport
from azure.data.tables import TableServiceClient

from tests.simulation.tables.service import TableService
from tests.simulation.tables.transport import SimulatedAnswer, asked_of


class _AtOnce(HttpTransport[Any, Any]):
    """Carries requests at once."""

    def __init__(self, service: TableService) -> None:
        self._service = service

    def send(self, request: Any, **_: object) -> Any:
        """Send a request."""
        return SimulatedAnswer(request, self._service.answer(asked_of(request)))

    def open(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Do nothing."""


def client_at_start(service: TableService, connection: Any) -> TableServiceClient:
    """Make the client."""
    text: str = connection.connection_string
    return TableServiceClient.from_connection_string(text, transport=_AtOnce(service))
