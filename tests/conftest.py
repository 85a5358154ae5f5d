"""What holds for all tests."""

from __future__ import annotations

from hypothesis import settings

# Timings never decide a test: a busy machine would.
settings.register_profile("ours", deadline=None)
settings.load_profile("ours")
