"""Makes the guard of each HTTP application, as the settings say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from functions.pattern.ports import Clock
from functions.web.callers import signed_in
from functions.web.caps import Caps
from functions.web.entrance import Guard
from functions.web.key_holders import key_holders
from functions.web.named_keys import NamedKey


class GuardSettings(Protocol):
    """The settings that a guard goes by."""

    @property
    def auth_mode(self) -> str:
        """`keys` or `easyauth`."""

    @property
    def rate_per_minute(self) -> int:
        """A caller's requests a minute."""

    @property
    def requests_in_flight(self) -> int:
        """A caller's requests at a time."""


def guard_of(function: str, settings: GuardSettings, keys: Iterable[NamedKey], clock: Clock) -> Guard:
    """Make the guard of a function's application."""
    is_signed_in = settings.auth_mode == "easyauth"
    identify = signed_in if is_signed_in else key_holders(function, keys)
    return Guard(identify, Caps(settings.rate_per_minute, settings.requests_in_flight), clock)
