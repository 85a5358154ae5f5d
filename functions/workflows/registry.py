"""Every workflow that is served; a new one is added here, and nowhere else."""

from __future__ import annotations

from functions.workflows.deliveries.definition import DELIVERIES
from functions.workflows.orders.definition import ORDERS

WORKFLOWS = (ORDERS, DELIVERIES)
