"""Function keys that have a name here: settings that hold the same secrets as the Functions host does.

The host checks a request's key, and does not tell Python its name. So each person or role has a key of a
function, and a setting `KEY_{FUNCTION}_{NAME}` with its secret: in Azure a reference to the vault, where the
host keeps the key as `function--{function}--{name}`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import combinations

from functions.pattern.errors import SettingsError

#: The functions whose callers are identified, as their blueprints name them.
API, OPERATIONS = "api", "operations"

#: Shorter secrets can be guessed; the host's own have 56 characters.
_FEWEST_CHARACTERS = 16

_SETTING = re.compile(rf"KEY_({API}|{OPERATIONS})_(.*)", re.IGNORECASE | re.DOTALL)
_NAME = re.compile(r"[a-z][a-z0-9_]{0,36}")

#: What a setting holds whose reference the platform could not resolve.
_REFERENCE = "@microsoft.keyvault("


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A key of a function, by the name of whom or what it stands for; only its secret's digest is kept."""

    function: str
    name: str
    digest: bytes = field(repr=False)


def digest_of(secret: str) -> bytes:
    """Give what is compared: it has one length, whatever the secret's is."""
    return sha256(secret.encode(errors="surrogatepass")).digest()


def load_named_keys(environment: Mapping[str, str]) -> tuple[NamedKey, ...]:
    """Read the keys that have a setting. Raises `SettingsError` for what can't be one; it shows no value."""
    keys = dict(_read(environment))
    for (setting, key), (other, its) in combinations(keys.items(), 2):
        if key.digest == its.digest and key.name != its.name:
            raise SettingsError(
                f"settings {setting} and {other} are equal: give each person or role a key of its own"
            )
    return tuple(keys.values())


def _read(environment: Mapping[str, str]) -> Iterator[tuple[str, NamedKey]]:
    for setting in sorted(environment):
        found = _SETTING.fullmatch(setting)
        if found is None:
            continue
        function, name = found[1].lower(), found[2].lower()
        if _NAME.fullmatch(name) is None:
            raise SettingsError(
                f"setting {setting} names no key: behind KEY_{function.upper()}_ it takes a letter,"
                " then up to 36 letters, digits and underscores"
            )
        fault = _fault_of(environment[setting])
        if fault is not None:
            raise SettingsError(f"setting {setting} {fault}")
        yield setting, NamedKey(function, name.replace("_", "-"), digest_of(environment[setting]))


def _fault_of(secret: str) -> str | None:
    """Say what is wrong with a secret, and the fix."""
    if secret.lower().startswith(_REFERENCE):
        return (
            "is a reference to a vault that was not resolved: see that the secret is there, and that the"
            " application's identity may read it"
        )
    if not secret:
        return "is empty: set it to the key's secret, or remove it"
    if len(secret) < _FEWEST_CHARACTERS:
        return f"is too short: a key has at least {_FEWEST_CHARACTERS} characters"
    if not secret.isascii() or not secret.isprintable() or {" ", ","} & {*secret}:
        return "is wrong (a space, a comma, or another character that no key has): set it to the key's secret"
    return None
