"""The sample payment service: it charges once for each id."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from functions.core.json_values import PLAIN_NUMBER
from functions.services.service import SampleService


class Payment(BaseModel):
    """A payment."""

    model_config = ConfigDict(extra="forbid")

    customer: Annotated[str, Field(min_length=1, max_length=100)]
    amount: Annotated[Decimal, PLAIN_NUMBER, Field(gt=0)]
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")]


SERVICES = (SampleService("payments", Payment),)
