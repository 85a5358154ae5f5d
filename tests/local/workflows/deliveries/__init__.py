"""The demo and the workflow `deliveries`."""

from __future__ import annotations
