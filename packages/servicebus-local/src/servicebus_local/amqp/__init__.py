"""AMQP 1.0 as the azure-servicebus client speaks it: codec, frames, connections, links."""

from __future__ import annotations
