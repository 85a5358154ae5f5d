"""`docs/settings.md` says what the application's settings are."""

from __future__ import annotations

from functions.settings import Settings
from local.settings_page import PAGE, page


def test_page_is_current() -> None:
    """`make settings-page` writes it anew after a change of the settings."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_setting_says_what_it_means() -> None:
    """Its text is also the fix that a wrong setting's error shows."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
