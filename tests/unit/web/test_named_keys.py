"""A key that can't be right stops the start with one line that names its setting, and never shows it."""

from __future__ import annotations

import pytest

from functions.pattern.errors import SettingsError
from functions.web.named_keys import digest_of, load_named_keys

SECRET = "adas-own-secret-0123456789"
OTHER = "bobs-own-secret-0123456789"


def test_setting_names_the_function_and_the_key() -> None:
    """In whatever case; other settings are no keys."""
    read = load_named_keys(
        {"KEY_API_ADA": SECRET, "Key_Operations_Night_Shift": OTHER, "KEY_API": "x", "PAYMENT_KEY": "x"}
    )
    assert [(each.function, each.name, each.digest) for each in read] == [
        ("api", "ada", digest_of(SECRET)),
        ("operations", "night-shift", digest_of(OTHER)),
    ]


def test_one_key_may_serve_one_person_at_both_functions() -> None:
    """The host keeps them apart."""
    assert len(load_named_keys({"KEY_API_ADA": SECRET, "KEY_OPERATIONS_ADA": SECRET})) == 2


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ({"KEY_API_ADA": ""}, "setting KEY_API_ADA is empty"),
        ({"KEY_API_ADA": "canary-15-chars"}, "setting KEY_API_ADA is too short: a key has at least 16"),
        ({"KEY_API_ADA": "canary-canary-canary "}, "setting KEY_API_ADA is wrong (a space"),
        ({"KEY_API_ADA": "canary,canary,canary"}, "setting KEY_API_ADA is wrong (a space, a comma"),
        ({"KEY_API_ADA": "canary-canary-canarü"}, "setting KEY_API_ADA is wrong"),
        ({"KEY_API_ADA": "canary-canary-\ncanary"}, "setting KEY_API_ADA is wrong"),
        ({"KEY_API_1": "canary-canary-canary"}, "setting KEY_API_1 names no key"),
        ({"KEY_OPERATIONS_": "canary-canary-canary"}, "setting KEY_OPERATIONS_ names no key"),
        ({f"KEY_API_{'A' * 38}": "canary-canary-canary"}, "names no key"),
        (
            {"KEY_API_ADA": "@Microsoft.KeyVault(SecretUri=https://canary.example/secrets/x)"},
            "setting KEY_API_ADA is a reference to a vault that was not resolved",
        ),
        (
            {"KEY_API_ADA": "canary-canary-canary", "KEY_API_BOB": "canary-canary-canary"},
            "settings KEY_API_ADA and KEY_API_BOB are equal",
        ),
        (
            {"KEY_API_ROLE_APPROVER": "canary-canary-canary", "KEY_OPERATIONS_BOB": "canary-canary-canary"},
            "settings KEY_API_ROLE_APPROVER and KEY_OPERATIONS_BOB are equal",
        ),
    ],
)
def test_key_that_cannot_be_right_is_refused(settings: dict[str, str], fault: str) -> None:
    """One line, with the fix."""
    with pytest.raises(SettingsError) as refusal:
        load_named_keys(settings)
    assert str(refusal.value).startswith(fault) or fault in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert "canary" not in str(refusal.value)
