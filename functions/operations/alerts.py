"""Alerts on their way to the operator: a log line always, and the webhook where there is one."""

from __future__ import annotations

import logging
from typing import Protocol

from pydantic import ValidationError

from functions.operations.alert_formats import Alert, task_alert
from functions.pattern.errors import TransientError
from functions.pattern.messages import AnnouncementMessage

_log = logging.getLogger(__name__)


class NotAnAlertError(Exception):
    """A message of the queue `operator-alerts` can't be read; the text names fields, not what is in them."""


class AlertChannel(Protocol):
    """Where operators hear of alerts, beside the log."""

    async def post(self, alert: Alert) -> None:
        """Post an alert. Raises `TransientError` when it is not taken."""


class Alerts:
    """Tells operators. An alert is logged as an error before it is posted: an alert rule finds it anyway."""

    def __init__(self, channel: AlertChannel | None) -> None:
        self._channel = channel

    async def alert_task(self, body: bytes) -> None:
        """Tell what a message of the queue `operator-alerts` says.

        Raises `TransientError` when the channel fails, and `NotAnAlertError`: then the message is delivered
        again, and at last it is a dead letter. So an alert can come twice; it says which task and epoch it
        is about.
        """
        alert = task_alert(_read(body))
        _log.error(alert.line())
        if self._channel is not None:
            await self._channel.post(alert)

    async def alert_lost(self, loss: Alert) -> None:
        """Tell of a lost message, which is recorded and logged already: here the channel may fail."""
        if self._channel is None:
            return
        try:
            await self._channel.post(loss)
        except TransientError as fault:
            _log.warning("%s not posted: %s", loss.line(), fault)


def _read(body: bytes) -> AnnouncementMessage:
    try:
        return AnnouncementMessage.model_validate_json(body)
    except ValidationError as error:
        fields = {".".join(map(str, fault["loc"])) or "message" for fault in error.errors()}
        raise NotAnAlertError(f"not an alert: {', '.join(sorted(fields))}") from None
