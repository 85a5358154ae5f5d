"""What a queue does: order, locks, delivery counts, times to live, dead letters. No connections here."""

from __future__ import annotations
