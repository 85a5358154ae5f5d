"""The sample payment service: `PUT /payments/{id}` pays once, `DELETE` undoes and leaves a tombstone."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from http import HTTPStatus
from typing import Annotated

from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceModifiedError, ResourceNotFoundError
from azure.data.tables import UpdateMode
from azure.data.tables.aio import TableClient
from fastapi import APIRouter, FastAPI, Path, Response
from pydantic import BaseModel, ConfigDict, Field

from functions.http.problems import ProblemError, install_problems
from functions.pattern.identity import TASK_ID_PATTERN
from functions.pattern.ports import Clock

PAYMENTS_TABLE = "Payments"

PaymentId = Annotated[str, Path(pattern=TASK_ID_PATTERN)]


class Payment(BaseModel):
    """What is to be paid."""

    model_config = ConfigDict(extra="forbid")

    customer: Annotated[str, Field(min_length=1, max_length=100)]
    amount: Annotated[Decimal, Field(gt=0)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


class PaymentView(Payment):
    """A payment that was made; `undone_at` is UTC, or null while the payment stands."""

    undone_at: datetime | None


class Payments:
    """The payments made, one row each; an undone one stays, so that a late repeat is refused."""

    def __init__(self, table: TableClient, *, clock: Clock) -> None:
        self._table = table
        self._clock = clock

    async def put(self, payment_id: str, payment: Payment) -> HTTPStatus:
        """Make the payment, or replace it: 201, 204, or 410 when it was undone."""
        row = _key(payment_id) | payment.model_dump(mode="json")
        try:
            await self._table.create_entity(row)
        except ResourceExistsError:
            return await self._replace(row)
        return HTTPStatus.CREATED

    async def _replace(self, row: dict[str, object]) -> HTTPStatus:
        """Replace the payment that is there, unless it is undone, be it at this very moment."""
        while True:
            there = await self._table.get_entity("payment", str(row["RowKey"]))
            if there.get("undone_at") is not None:
                return HTTPStatus.GONE
            with suppress(ResourceModifiedError):
                await self._table.update_entity(
                    row,
                    mode=UpdateMode.REPLACE,
                    etag=there.metadata["etag"],
                    match_condition=MatchConditions.IfNotModified,
                )
                return HTTPStatus.NO_CONTENT

    async def delete(self, payment_id: str) -> None:
        """Undo the payment, also before it is made."""
        tombstone = _key(payment_id) | {"undone_at": self._clock.now()}
        await self._table.upsert_entity(tombstone, mode=UpdateMode.MERGE)

    async def find(self, payment_id: str) -> PaymentView | None:
        """Read a payment; None when there never was one."""
        try:
            row = await self._table.get_entity("payment", payment_id)
        except ResourceNotFoundError:
            return None
        return PaymentView.model_construct(
            customer=row.get("customer", ""),
            amount=Decimal(row.get("amount", "0")),
            currency=row.get("currency", ""),
            undone_at=row.get("undone_at"),
        )


def payments_application(payments: Payments) -> FastAPI:
    """Serve the payments below `/api/services/payments`."""
    app = FastAPI(title="Sample payment service", docs_url=None, redoc_url=None, openapi_url=None)
    install_problems(app)
    app.include_router(_routes(payments))
    return app


def _routes(payments: Payments) -> APIRouter:
    router = APIRouter(prefix="/api/services/payments")

    @router.put("/{payment_id}")
    async def put(payment_id: PaymentId, payment: Payment) -> Response:
        """Make the payment."""
        status = await payments.put(payment_id, payment)
        if status is HTTPStatus.GONE:
            raise ProblemError(status, "This payment was undone.")
        return Response(status_code=status)

    @router.get("/{payment_id}")
    async def get(payment_id: PaymentId) -> PaymentView:
        """Show the payment."""
        found = await payments.find(payment_id)
        if found is None:
            raise ProblemError(HTTPStatus.NOT_FOUND, "There is no such payment.")
        return found

    @router.delete("/{payment_id}", status_code=HTTPStatus.NO_CONTENT)
    async def delete(payment_id: PaymentId) -> None:
        """Undo the payment."""
        await payments.delete(payment_id)

    return router


def _key(payment_id: str) -> dict[str, object]:
    return {"PartitionKey": "payment", "RowKey": payment_id}
