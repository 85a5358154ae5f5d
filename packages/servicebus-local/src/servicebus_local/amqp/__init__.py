"""AMQP 1.0 as the azure-servicebus client speaks it: frames, links, sessions, connections."""

from __future__ import annotations
