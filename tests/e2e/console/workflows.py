"""The product's workflows, of which deliveries wait for an operator instead of undoing themselves."""

from __future__ import annotations

from dataclasses import replace

from functions.pattern.states import Remedy
from functions.workflows.deliveries.definition import DELIVERIES
from functions.workflows.orders.definition import ORDERS

WORKFLOWS = (replace(DELIVERIES, on_failure=Remedy.HOLD, on_exhausted=Remedy.HOLD), ORDERS)
