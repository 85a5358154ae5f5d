"""Service Bus triggers and output bindings, through the real azure-servicebus client."""

from __future__ import annotations
