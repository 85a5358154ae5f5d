"""Orders through the event hub, on real processes."""

from __future__ import annotations
