"""Settings of a test, whatever the environment says."""

from __future__ import annotations

from functions.settings import Settings


def settings_with(**values: str) -> Settings:
    """Give the default settings, but for those that are named as in the environment."""
    return Settings.model_construct(**Settings.model_validate(values).model_dump())
