"""The Agent of the payment service."""

from __future__ import annotations

from functions.agents.rest import RestAgent


class PaymentAgent(RestAgent):
    """Takes the money once for each task, and gives it back, or keeps it from being taken."""
