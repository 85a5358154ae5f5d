"""Orders: one step, the payment, which a REST Agent behind a queue carries out."""

from __future__ import annotations

from functions.workflows.orders.definition import ORDERS
from functions.workflows.orders.services import SERVICES
from functions.workflows.registry import Registration

REGISTRATION = Registration(ORDERS, services=SERVICES)
