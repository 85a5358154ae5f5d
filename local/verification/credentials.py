"""The keys and tokens with which a deployment is verified, from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from local.platform import StartRefusedError

KEY, OPERATOR_KEY, SERVICES_KEY = "VERIFY_KEY", "VERIFY_OPERATOR_KEY", "VERIFY_SERVICES_KEY"
TOKEN, OPERATOR_TOKEN = "VERIFY_TOKEN", "VERIFY_OPERATOR_TOKEN"

_ON_THIS_MACHINE = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The headers of each kind of request; a key or token that is not given is the caller's."""

    caller: Mapping[str, str] = field(repr=False)
    operator: Mapping[str, str] = field(repr=False)
    services: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str], *urls: str) -> Credentials:
        """Read them. Raises `StartRefusedError` where a secret would go over a network as plain text."""
        key, token = environment.get(KEY, ""), environment.get(TOKEN, "")
        made = cls(
            caller=_headers(key, token),
            operator=_headers(environment.get(OPERATOR_KEY) or key, environment.get(OPERATOR_TOKEN) or token),
            services=_headers(environment.get(SERVICES_KEY) or key, token),
        )
        for url in urls:
            parts = urlsplit(url)
            if parts.scheme != "https" and parts.hostname not in _ON_THIS_MACHINE and any(made.all()):
                raise StartRefusedError(f"{url} is not https: no key or token is sent there.")
        return made

    def all(self) -> tuple[Mapping[str, str], ...]:
        """Give the headers of every kind."""
        return self.caller, self.operator, self.services


def _headers(key: str, token: str) -> dict[str, str]:
    key_header = {"x-functions-key": key} if key else {}
    return key_header | ({"Authorization": f"Bearer {token}"} if token else {})
