"""Stand-ins for the outside of what is tested: clock, store, queues, workflows."""

from __future__ import annotations
