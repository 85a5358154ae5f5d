"""The operators' webhook: one address, from the settings, to which alerts are posted."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable

import aiohttp
from yarl import URL

from functions.operations.alert_formats import Alert, AlertFormat, document
from functions.pattern.errors import TransientError
from functions.settings import SettingsError

_TIMEOUT = aiohttp.ClientTimeout(total=10)
_REFUSALS = 300

#: Hosts of Teams' incoming webhooks, and of the workflows that follow them.
_TEAMS_HOSTS = (".webhook.office.com", ".logic.azure.com")


class Webhook:
    """Posts alerts. Without a format, the address tells it. The address is a secret: it is never shown.

    Raises `SettingsError` for an address that is neither https nor on this machine.
    """

    def __init__(
        self, address: str, alert_format: AlertFormat | None, *, session: Callable[[], aiohttp.ClientSession]
    ) -> None:
        self._url = _checked(address)
        self._format = alert_format or _format_of(self._url)
        self._session = session

    async def post(self, alert: Alert) -> None:
        """Post an alert, within 10 seconds. Raises `TransientError` when it is not taken."""
        content = document(alert, self._format)
        try:
            async with self._session().post(
                self._url, json=content, allow_redirects=False, timeout=_TIMEOUT
            ) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"alert webhook: {type(error).__name__}") from None
        if status >= _REFUSALS:
            raise TransientError(f"alert webhook answered {status}")


def _checked(address: str) -> URL:
    fix = "set it to an address that begins with https:// (or http:// on this machine), or leave it out"
    try:
        url = URL(address)
    except ValueError:
        raise SettingsError(f"setting ALERT_WEBHOOK_URL is wrong (not an address): {fix}") from None
    if not url.host or not (url.scheme == "https" or (url.scheme == "http" and _is_loopback(url.host))):
        raise SettingsError(f"setting ALERT_WEBHOOK_URL is wrong (not https): {fix}")
    return url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _format_of(url: URL) -> AlertFormat:
    host = (url.host or "").rstrip(".").lower()
    return AlertFormat.TEAMS if host.endswith(_TEAMS_HOSTS) else AlertFormat.GENERIC
