"""The workflow `deliveries` end to end, under the faults of its services, its hosts and its messages."""

from __future__ import annotations
