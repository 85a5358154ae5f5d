"""Places at a service whose calls are limited: over all instances, whatever becomes of them."""

from __future__ import annotations
