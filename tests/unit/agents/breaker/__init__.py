"""Circuit breakers: what leaves a service alone, for how long, and how instances learn of it."""

from __future__ import annotations
