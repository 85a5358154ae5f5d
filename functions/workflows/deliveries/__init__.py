"""Drone deliveries: five remote services, of which three can be undone."""

from __future__ import annotations

from functions.workflows.deliveries.agents import AGENTS
from functions.workflows.deliveries.definition import DELIVERIES
from functions.workflows.deliveries.services import SERVICES
from functions.workflows.registry import Registration

REGISTRATION = Registration(DELIVERIES, agents=AGENTS, services=SERVICES)
