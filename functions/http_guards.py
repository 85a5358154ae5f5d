"""Makes the guards of the HTTP interfaces after the settings."""

from __future__ import annotations

from functions.pattern.ports import Clock
from functions.settings import Settings
from functions.web.access import Guard
from functions.web.callers import Identify, key_holder, signed_in
from functions.web.caps import Caps


def guard_of(settings: Settings, clock: Clock, *, key_name: str) -> Guard:
    """Make a guard; `key_name` is what everybody is called who shows a function key and no identity."""
    caps = Caps(per_minute=settings.rate_per_minute, in_flight=settings.requests_in_flight)
    return Guard(_identify(settings, key_name), caps, clock)


def _identify(settings: Settings, key_name: str) -> Identify:
    match settings.auth_mode:
        case "easyauth":
            return signed_in
        case "keys":
            return key_holder(key_name)
