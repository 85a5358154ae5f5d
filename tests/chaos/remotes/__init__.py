"""What the application calls: a payment service with faults and a ledger, and the operators' webhook."""

from __future__ import annotations
