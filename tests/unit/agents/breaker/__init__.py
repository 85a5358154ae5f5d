"""Circuit breakers: what opens a circuit, for how long, and how instances learn of it."""

from __future__ import annotations
