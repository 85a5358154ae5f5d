"""The keys of requests: a master key for all functions, and keys of single functions."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from functions_local.app import AuthLevel
from functions_local.configuration import StartError, read_json

#: The keys of functions: `{"function": {"name of a key": "its value"}}`.
FUNCTION_KEYS = "keys.json"
_MASTER_KEY = "master.key"


class Keys:
    """Checks the keys of requests; without a master key, every request is allowed."""

    def __init__(
        self, master: str | None, of_functions: Mapping[str, Mapping[str, str]] | None = None
    ) -> None:
        self._master = master
        self._of_functions = of_functions or {}

    @classmethod
    def kept_in(cls, folder: Path) -> Keys:
        """Use the keys in `folder`; create the master key, readable by its owner only, if there is none.

        Raises StartError when the file with the functions' keys can't be read.
        """
        master, functions = folder / _MASTER_KEY, folder / FUNCTION_KEYS
        if not master.exists():
            master.touch(mode=0o600)
            master.write_text(secrets.token_urlsafe(32))
        named = read_json(functions) if functions.exists() else {}
        if not all(_are_keys(each) for each in named.values()):
            raise StartError(f'{functions} must hold {{"function": {{"name of a key": "key"}}}}')
        return cls(master.read_text(), {function.lower(): keys for function, keys in named.items()})

    def allow(self, request: web.BaseRequest, level: AuthLevel, function: str | None = None) -> bool:
        """Return whether a request has the key for `level`: the master key, or a key of the function.

        As in Azure, the `code` query value counts only where there is no `x-functions-key` header.
        """
        if self._master is None or level is AuthLevel.ANONYMOUS:
            return True
        fitting = [self._master]
        if level is AuthLevel.FUNCTION and function is not None:
            fitting += self._of_functions.get(function.lower(), {}).values()
        given = request.headers.get("x-functions-key", request.query.get("code", "")).encode()
        fits = [hmac.compare_digest(given, key.encode()) for key in fitting]  # all: the time tells nothing
        return any(fits)


def _are_keys(keys: Any) -> bool:
    return isinstance(keys, dict) and all(isinstance(key, str) and key for key in keys.values())
