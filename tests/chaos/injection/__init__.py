"""Injection of faults: into the parts of the platform, the broker, and the connections to the tables."""

from __future__ import annotations
