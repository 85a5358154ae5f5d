"""The operators' webhook: one address, from the settings, to which alerts are posted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any

import aiohttp
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from yarl import URL

from functions.operations.alerts.alerts import Alert, AlertFormat, document
from functions.pattern.errors import TransientError

#: Hosts of Teams' incoming webhooks, and of the workflows that follow them.
_TEAMS_HOSTS = (".webhook.office.com", ".logic.azure.com")


class Webhook:
    """Posts alerts. Without a format, the address decides it. The address is a secret: it is never shown.

    `first_wait` is the seconds before the second attempt; before each further one it is twice as long.
    Service Bus redelivers at once, at most ten times: without waits that would be over in a second.
    """

    def __init__(
        self,
        address: str,
        alert_format: str | None,
        *,
        session: Callable[[], aiohttp.ClientSession],
        first_wait: float = 1,
    ) -> None:
        self._url = URL(address, encoded=True)  # a signature in it stays as it is
        at_teams = (self._url.host or "").rstrip(".").lower().endswith(_TEAMS_HOSTS)
        self._format = AlertFormat(alert_format or (AlertFormat.TEAMS if at_teams else AlertFormat.GENERIC))
        self._session = session
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(TransientError),
            stop=stop_after_attempt(4),
            wait=wait_exponential(first_wait),
            reraise=True,
        )

    async def post(self, alert: Alert) -> None:
        """Post an alert, in up to 4 attempts of 10 seconds. Raises `TransientError` when it is not taken."""
        await self._retrying.copy()(self._attempt, document(alert, self._format))

    async def _attempt(self, content: Mapping[str, Any]) -> None:
        try:
            timeout = aiohttp.ClientTimeout(total=10)
            async with self._session().post(
                self._url, json=content, allow_redirects=False, timeout=timeout
            ) as answer:
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransientError(f"alert webhook: {type(error).__name__}") from None
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            raise TransientError(f"alert webhook answered {status}")
