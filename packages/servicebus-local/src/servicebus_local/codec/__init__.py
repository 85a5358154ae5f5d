"""AMQP 1.0 values: their types, and how they are written and read."""

from __future__ import annotations
