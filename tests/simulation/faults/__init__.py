"""What goes wrong in a run: drawn by its seed, until everything is healed."""

from __future__ import annotations
