"""The behaviour of event hubs: partitions, events, positions, readers and retention. No network here."""

from __future__ import annotations
