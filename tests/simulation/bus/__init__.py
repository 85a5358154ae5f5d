"""Service Bus, as its client and the host's trigger meet it."""

from __future__ import annotations
