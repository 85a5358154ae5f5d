"""The application with claims and offers, which wait for events."""

from __future__ import annotations
