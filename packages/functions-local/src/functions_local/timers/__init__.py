"""Timer triggers: schedules, their record on disk, and the loop that runs them."""

from __future__ import annotations
