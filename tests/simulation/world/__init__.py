"""Virtual time, chance, and the seams at which a host meets the services outside."""

from __future__ import annotations
