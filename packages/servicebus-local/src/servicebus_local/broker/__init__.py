"""The behaviour of queues: order, locks, delivery counts, times to live, dead letters. No network here."""

from __future__ import annotations
