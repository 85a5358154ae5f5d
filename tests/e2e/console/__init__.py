"""The console in a real browser, on the whole local platform."""

from __future__ import annotations
