"""Sales: charged, and then confirmed by an e-mail, without which they count as well."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from functions.workflow import Json, Results, Retry, Step, Workflow
from functions.workflows_next.registration import Registration


class Sale(BaseModel):
    """The amount, and the address of the receipt."""

    model_config = ConfigDict(extra="forbid")

    amount: int
    address: str


class Receipt(BaseModel):
    """The answer of the bank."""

    reference: str


def _charge(sale: Sale, _results: Results) -> Json:
    return {"amount": sale.amount}


def _mail(sale: Sale, results: Results) -> Json:
    return {"to": sale.address, "receipt": results[CHARGE].reference}


def _output(_sale: Sale, results: Results) -> Json:
    return {"receipt_sent": results[MAIL] is not None}


CHARGE = Step("charge", agent="bank", request=_charge, result=Receipt, complete_within=20, undo=True)
MAIL = Step(
    "mail",
    needs=[CHARGE],
    request=_mail,
    complete_within=20,
    retry=Retry(first=0.2, factor=2, longest=5),
    on_failure="continue",
)

SALES = Workflow("sale", resource="sales", payload=Sale, steps=[CHARGE, MAIL], output=_output)

REGISTRATION = Registration(SALES)
