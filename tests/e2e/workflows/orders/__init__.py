"""The workflow `orders` end to end."""

from __future__ import annotations
