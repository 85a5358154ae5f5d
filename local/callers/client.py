"""A client of the order API: submits orders, reads their status, follows them to their end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from enum import StrEnum
from http import HTTPStatus
from typing import NamedTuple

import aiohttp
from pydantic import BaseModel, ConfigDict

type Body = Mapping[str, object]

SAMPLE_ORDER: dict[str, object] = {
    "customer": "C-1042",
    "currency": "EUR",
    "items": [{"sku": "TEA-250", "quantity": 2, "unit_price": "4.90"}],
}
#: The sample delivery: across town, so within the service area.
SAMPLE_DELIVERY: dict[str, object] = {
    "account": "A-1042",
    "package": {"weight_kg": 2.5, "size": "small", "tag": "spare parts"},
    "pickup": {"latitude": 47.6423, "longitude": -122.1391},
    "dropoff": {"latitude": 47.6205, "longitude": -122.3493},
    "pickup_at": "2026-11-21T12:00:00Z",
    "expedited": False,
}
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_LOOK_EVERY = 0.1


class OrderRefusedError(Exception):
    """The API did not accept an order, or did not return its status; `status` is that of its answer."""

    def __init__(self, text: str, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status


class UnknownResourceError(OrderRefusedError):
    """The application serves no workflow under the name of a resource."""

    def __init__(self, resource: str) -> None:
        option = "deliveries" if resource == "deliveries" else "orders"
        super().__init__(f"There is no resource '{resource}' here: leave it out with `--{option} 0`.")


class OrderState(StrEnum):
    """The state of an order: the pattern's `ProcessState`, and two states before it has a task."""

    ACCEPTED = "Accepted"
    #: It was rejected, and will have no task.
    REJECTED = "Rejected"
    PENDING = "Pending"
    PROCESSING = "Processing"
    PROCESSED = "Processed"
    #: It waits for an operator.
    ERROR = "Error"
    COMPENSATED = "Compensated"


class CalledStep(BaseModel):
    """One step of an order, as the API returns it."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: str
    started_at: datetime | None = None
    finished_at: datetime | None = None


class OrderStatus(BaseModel):
    """An order, as the API returns it. Times are UTC."""

    model_config = ConfigDict(frozen=True)

    id: str
    state: OrderState
    submitted_at: datetime
    finished_at: datetime | None = None
    steps: tuple[CalledStep, ...] = ()
    last_error: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether only an operator can change it."""
        return self.state not in {OrderState.ACCEPTED, OrderState.PENDING, OrderState.PROCESSING}

    @property
    def seconds(self) -> float | None:
        """Seconds from its submission to its end, by the service's own clock."""
        return (self.finished_at - self.submitted_at).total_seconds() if self.finished_at else None


class ApiAnswer(NamedTuple):
    """The status of an answer, and its body as text."""

    status: int
    text: str

    @property
    def is_good(self) -> bool:
        """Whether the request was accepted."""
        return self.status < HTTPStatus.BAD_REQUEST

    def __str__(self) -> str:
        """Show both."""
        return f"{self.status} {self.text}".strip()


class OrderClient:
    """Calls the API at one address; with `headers`, such as a key, in each request."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    @classmethod
    @asynccontextmanager
    async def at(cls, url: str, headers: Mapping[str, str] | None = None) -> AsyncIterator[OrderClient]:
        """Open a client of the application at `url` for the block."""
        base_url = url.rstrip("/") + "/"
        async with aiohttp.ClientSession(base_url=base_url, timeout=_TIMEOUT, headers=headers) as session:
            yield cls(session)

    async def require(self, resource: str) -> None:
        """Raise `UnknownResourceError` unless the application serves the resource."""
        # A known resource answers 405, since it cannot be listed.
        if (await self._answer("GET", f"api/{resource}")).status == HTTPStatus.NOT_FOUND:
            raise UnknownResourceError(resource)

    async def submit(self, resource: str, order_id: str, body: Body) -> None:
        """Submit an order under this id. Raises `OrderRefusedError` with the API's reason."""
        answer = await self.put(resource, order_id, body)
        if not answer.is_good:
            raise OrderRefusedError(f"The order was refused: {answer}")

    async def health(self) -> ApiAnswer:
        """Return the answer of the health check."""
        return await self._answer("GET", "api/health")

    async def put(self, resource: str, order_id: str, body: Body) -> ApiAnswer:
        """Submit under this id, and return the answer, whatever it is."""
        return await self._answer("PUT", f"api/{resource}/{order_id}", body)

    async def cancel(self, resource: str, order_id: str) -> ApiAnswer:
        """Cancel what has this id, and return the answer, whatever it is."""
        return await self._answer("DELETE", f"api/{resource}/{order_id}")

    async def _answer(self, method: str, path: str, body: Body | None = None) -> ApiAnswer:
        async with self._session.request(method, path, json=body) as response:
            return ApiAnswer(response.status, await response.text())

    async def submit_batch(self, resource: str, orders: Sequence[Body]) -> None:
        """Submit orders in one request. Raises `OrderRefusedError` unless all of them are accepted."""
        async with self._session.post(f"api/{resource}/batch", json={resource: orders}) as response:
            if not response.ok:
                text = f"The batch was refused: {response.status} {await response.text()}"
                raise OrderRefusedError(text, response.status)
            results = (await response.json())["results"]
        for result in results:
            if result["status"] != HTTPStatus.ACCEPTED:
                raise OrderRefusedError(f"An order of the batch was refused: {result.get('problem')}")

    async def look_at(self, order_id: str, resource: str) -> OrderStatus | None:
        """Return the order's status, or `None` if there is none."""
        async with self._session.get(f"api/{resource}/{order_id}") as response:
            if response.status == HTTPStatus.NOT_FOUND:
                return None
            if not response.ok:
                raise OrderRefusedError(
                    f"The order cannot be read: {response.status} {await response.text()}"
                )
            return OrderStatus.model_validate(await response.json())

    async def follow(self, order_id: str, within: float, resource: str) -> AsyncIterator[OrderStatus]:
        """Yield the order's status each time it has changed, until it is finished.

        Raises `TimeoutError` when that takes longer than `within` seconds.
        """
        last: OrderStatus | None = None
        async with asyncio.timeout(within):
            while last is None or not last.is_finished:
                order = await self.look_at(order_id, resource)
                if order and order != last:
                    last = order
                    yield order
                else:
                    await asyncio.sleep(_LOOK_EVERY)
