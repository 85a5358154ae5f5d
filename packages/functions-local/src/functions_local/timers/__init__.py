"""Timer triggers: schedules, their records on disk, and the loop that runs functions."""

from __future__ import annotations
