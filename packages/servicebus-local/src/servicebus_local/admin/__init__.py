"""The admin endpoint: figures of the queues, and faults for tests and chaos runs."""

from __future__ import annotations
