"""`docs/settings.md` lists the application's settings."""

from __future__ import annotations

from functions.settings import Settings
from local.settings_page import PAGE, page


def test_page_is_current() -> None:
    """`make settings-page` rewrites it after a change of the settings."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_setting_says_what_it_means() -> None:
    """The description is also the fix in the error about a wrong setting."""
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []
