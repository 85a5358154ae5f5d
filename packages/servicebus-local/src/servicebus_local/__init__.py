"""A local Azure Service Bus broker: queues over AMQP 1.0 for the unmodified azure-servicebus client."""

from __future__ import annotations
