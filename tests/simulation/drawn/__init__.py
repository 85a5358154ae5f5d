"""What a seed draws: workflows, orders, faults."""

from __future__ import annotations
