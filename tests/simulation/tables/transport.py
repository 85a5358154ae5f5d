"""Where azure-core's transports stand: carries requests of one host to the simulated service."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType
from typing import Any, Self

from azure.core.exceptions import ServiceRequestError, ServiceResponseError
from azure.core.pipeline.transport import AsyncHttpTransport
from azure.core.utils import case_insensitive_dict

from tests.simulation.hosts.seam import Seam
from tests.simulation.tables.service import Answer, Asked, TableService
from tests.simulation.world.fate import AnswerLostFault, BusyFault, NotSentFault

_BUSY = {"odata.error": {"code": "ServerBusy", "message": {"lang": "en-us", "value": "busy"}}}


class SimulatedAnswer:
    """An answer as azure-core's policies and the SDKs read it."""

    def __init__(self, request: Any, answer: Answer) -> None:
        self.request = request
        self.status_code = int(answer.status)
        self.headers = case_insensitive_dict(answer.headers)
        self.content = answer.content
        self.content_type = self.headers.get("Content-Type")
        self.reason = ""

    def body(self) -> bytes:
        """Give the content."""
        return self.content

    def text(self, _encoding: str | None = None) -> str:
        """Give the content as text."""
        return self.content.decode()

    def json(self) -> Any:
        """Give the content, read."""
        return json.loads(self.content)

    async def read(self) -> bytes:
        """Give the content."""
        return self.content


class SimulatedTransport(AsyncHttpTransport[Any, Any]):
    """Carries requests; each can be refused, or its answer be lost, as its fate says."""

    def __init__(self, service: TableService, seam: Seam) -> None:
        self._service = service
        self._seam = seam

    async def send(self, request: Any, **_: object) -> Any:
        """Send a request. Raises `AzureError`."""
        asked = asked_of(request)
        try:
            answer = await self._seam.carry_out(str(asked), lambda: self._service.answer(asked))
        except NotSentFault as fault:
            raise ServiceRequestError(f"not connected: {fault}") from fault
        except AnswerLostFault as fault:
            raise ServiceResponseError(f"no answer: {fault}") from fault
        except BusyFault:
            answer = Answer(503, json.dumps(_BUSY).encode(), {"Content-Type": "application/json"})
        return SimulatedAnswer(request, answer)

    async def sleep(self, duration: float) -> None:
        """Wait before a retry."""
        await asyncio.sleep(duration)

    async def open(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        """Do nothing."""


def asked_of(request: Any) -> Asked:
    """Read a request of either of azure-core's kinds."""
    content = getattr(request, "content", None)
    data = getattr(request, "data", None) if content is None else content
    body = data.encode() if isinstance(data, str) else data or b""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return Asked(request.method, request.url, headers, body)
