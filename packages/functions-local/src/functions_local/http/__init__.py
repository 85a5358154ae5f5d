"""HTTP triggers and the host's own administration endpoints."""

from __future__ import annotations
