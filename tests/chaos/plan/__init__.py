"""What happens in a run, as its seed decides: orders and their scenarios, faults, time limits."""

from __future__ import annotations
