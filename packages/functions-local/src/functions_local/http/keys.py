"""Function keys: with --enforce-auth the host asks for one, as Azure does; without it any request passes."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from aiohttp import web

from functions_local.app import AuthLevel


class Keys:
    """Decides whether a request may pass. One master key serves every function."""

    def __init__(self, master: str | None) -> None:
        self._master = master

    @classmethod
    def kept_in(cls, file: Path) -> Keys:
        """Use the key in `file`; make it, readable by its owner only, when there is none."""
        if not file.exists():
            file.touch(mode=0o600)
            file.write_text(secrets.token_urlsafe(32))
        return cls(file.read_text())

    def allow(self, request: web.BaseRequest, level: AuthLevel) -> bool:
        """Check the `x-functions-key` header or the `code` query value against what the level needs."""
        if self._master is None or level is AuthLevel.ANONYMOUS:
            return True
        given = request.headers.get("x-functions-key") or request.query.get("code", "")
        return hmac.compare_digest(given.encode(), self._master.encode())
