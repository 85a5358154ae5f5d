"""Many steps at a time on the whole local platform, what they cost, and how they outlive a crash."""

from __future__ import annotations
