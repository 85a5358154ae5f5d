"""Tests of the local Service Bus, most of them through the unmodified azure-servicebus client."""

from __future__ import annotations
