"""The admin endpoint: a look into the queues, and faults for tests and chaos runs."""

from __future__ import annotations
