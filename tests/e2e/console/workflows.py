"""The tests' deliveries, which are held for an operator instead of being undone, and orders."""

from __future__ import annotations

from functions.workflows.registration import Registration
from tests.e2e.fleet.workflows import AGENTS, HOLDING
from tests.fakes import orders

REGISTRATIONS = (Registration(HOLDING, AGENTS), orders.REGISTRATION)
