"""Alerts for operators: each is a line of the log, and is posted where a webhook is set. Times are UTC."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import aiohttp
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from yarl import URL

from functions.messaging.lost_messages import LostMessage
from functions.messaging.message_format import read_message
from functions.messaging.task_messages import AnnouncementMessage
from functions.operators.alert_limit import AlertLimit, AlertMinute
from functions.storage.table_contract import StorageError
from functions.telemetry.error_causes import error_class

_log = logging.getLogger(__name__)

#: Seconds for the post of a queued alert, within the handling of its message (45 s), and for the post of an
#: alert whose caller must finish within 12 seconds.
_QUEUED_SECONDS, _POST_SECONDS = 35.0, 6.0
#: Attempts of a post, and seconds of each one.
_ATTEMPTS, _ATTEMPT_SECONDS = 4, 10


class WebhookError(Exception):
    """The webhook did not accept an alert. The text does not name its address, which is a secret."""


class AlertFormat(StrEnum):
    """The format that the webhook expects."""

    GENERIC = "generic"
    TEAMS = "teams"


type Facts = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Alert:
    """An event for operators, with facts by name. `subject` separates causes, such as queues."""

    event: str
    facts: Facts
    subject: str | None = None

    @property
    def cause(self) -> str:
        """Return the text under which a summary counts the alert."""
        return self.event if self.subject is None else f"{self.event}: {self.subject}"

    @property
    def line(self) -> str:
        """Return the line of the log: the event, and its facts as JSON."""
        return f"{self.event} {json.dumps(self.facts)}"


def announced_alert(message: AnnouncementMessage) -> Alert:
    """Return the alert about a task, a gate or corrupt rows."""
    rows = "; ".join(f"{key} ({reason})" for key, reason in (message.rows or {}).items())
    facts: dict[str, str | int | None] = {
        "cause": message.cause,
        "task": message.id or None,
        "epoch": message.epoch,
        "workflow": message.workflow,
        "state": message.state,
        "gate": message.gate,
        "reason": message.reason,
        "rows": rows or None,
        "at": message.at.isoformat(),
    }
    parts = (
        message.cause,
        message.workflow,
        message.gate,
        error_class(message.reason or "", message.id or None),
    )
    known = {name: fact for name, fact in facts.items() if fact is not None}
    return Alert("operator alert", known, ": ".join(filter(None, parts)))


def lost_alert(lost: LostMessage) -> Alert:
    """Return the alert about a message that no function handles any more."""
    facts: Facts = {
        "queue": lost.queue,
        "message_id": lost.message_id,
        "task": lost.task,
        "reason": lost.reason,
    }
    return Alert("message lost", facts, lost.queue)


def summary_alert(minute: AlertMinute) -> Alert:
    """Return the summary of the alerts of a minute that were not posted singly."""
    causes = "; ".join(f"{cause} ({count})" for cause, count in minute.waiting.most_common())
    facts: Facts = {
        "alerts": minute.waiting.total(),
        "since": minute.since.isoformat(),
        "causes": causes,
    }
    return Alert("more alerts", facts)


def document(alert: Alert, alert_format: AlertFormat) -> dict[str, Any]:
    """Return the JSON of an alert that is posted."""
    if alert_format is AlertFormat.GENERIC:
        return {"event": alert.event, **alert.facts}
    title = {"type": "TextBlock", "text": alert.event.capitalize(), "weight": "Bolder", "size": "Medium"}
    lines = [_text_runs(name, fact) for name, fact in alert.facts.items() if fact is not None]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [title, *lines],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _text_runs(name: str, fact: str | int) -> dict[str, Any]:
    """Return a fact as text runs, in which Teams reads no Markdown: ids may contain underscores."""
    label = {"type": "TextRun", "text": f"{name.replace('_', ' ')}: ", "weight": "Bolder"}
    return {"type": "RichTextBlock", "inlines": [label, {"type": "TextRun", "text": str(fact)}]}


#: Posts an alert. Raises `WebhookError`.
type Post = Callable[[Alert], Awaitable[None]]


class Alerts:
    """Logs alerts and posts them. Without `post`, they are logged only.

    `limit` decides which alerts are posted singly; the summary counts the others.
    """

    def __init__(self, post: Post | None, limit: AlertLimit) -> None:
        self._post, self._limit = post, limit

    async def take(self, body: bytes) -> None:
        """Log a message of the queue `operator-alerts`, and post or count it.

        Raises `MessageError` for a message of another schema, and `WebhookError` if the alert was neither
        posted nor counted: the queue delivers the message again.
        """
        alert = announced_alert(read_message(AnnouncementMessage, body))
        _log.error("%s", alert.line)
        await self._post_or_count(alert, _QUEUED_SECONDS)

    async def alert_lost(self, lost: LostMessage) -> None:
        """Post the loss of a message, which is recorded and logged. It raises nothing."""
        await self._post_recorded(lost_alert(lost))

    async def alert_rejected(self, queue: str, reason: str, *, task: str | None, step: str | None) -> None:
        """Log and post that a message of a queue is rejected; the message is recorded. It raises nothing."""
        facts: Facts = {"queue": queue, "task": task, "step": step, "reason": reason}
        alert = Alert("message rejected", facts, queue)
        _log.error("%s", alert.line)
        await self._post_recorded(alert)

    async def post_summary(self) -> None:
        """Post the alerts of a minute that is over. It raises nothing, as the next run of the timer posts."""
        post = self._post
        if post is None:
            return
        try:
            await self._limit.post_summary(lambda minute: _posted(post, summary_alert(minute), _POST_SECONDS))
        except (WebhookError, StorageError) as error:
            _log.warning("the summary of alerts is not posted yet: %s", error)

    async def _post_recorded(self, alert: Alert) -> None:
        try:
            await self._post_or_count(alert, _POST_SECONDS)
        except WebhookError as error:
            _log.warning("%s is neither posted nor counted: %s", alert.line, error)

    async def _post_or_count(self, alert: Alert, seconds: float) -> None:
        """Post an alert singly within the limit. An alert that is not accepted is counted."""
        if self._post is None or not await self._limit.allows(alert.cause):
            return
        try:
            await _posted(self._post, alert, seconds)
        except WebhookError as error:
            _log.warning("%s is not posted: %s", alert.line, error)
            try:
                await self._limit.add(alert.cause)
            except (StorageError, TimeoutError):
                raise error from None


async def _posted(post: Post, alert: Alert, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await post(alert)
    except TimeoutError:
        raise WebhookError(f"the alert webhook did not answer within {seconds:g} s") from None


#: Hosts of incoming webhooks of Teams, and of the workflows that replace them.
_TEAMS_HOSTS = (".webhook.office.com", ".logic.azure.com")


class Webhook:
    """Posts alerts to a secret address. Without `alert_format`, the host of the address decides the format.

    `first_wait` (seconds) is the wait before the second attempt; it doubles.
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
        is_teams = (self._url.host or "").rstrip(".").lower().endswith(_TEAMS_HOSTS)
        self.format = AlertFormat(alert_format or (AlertFormat.TEAMS if is_teams else AlertFormat.GENERIC))
        self._session = session
        self._retrying = AsyncRetrying(
            retry=retry_if_exception_type(WebhookError),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_exponential(first_wait),
            reraise=True,
        )

    async def post(self, alert: Alert) -> None:
        """Post an alert in up to 4 attempts of 10 seconds. Raises `WebhookError`."""
        await self._retrying.copy()(self._attempt, document(alert, self.format))

    async def _attempt(self, content: Mapping[str, Any]) -> None:
        timeout = aiohttp.ClientTimeout(total=_ATTEMPT_SECONDS)
        try:
            async with self._session().post(
                self._url, json=content, allow_redirects=False, timeout=timeout
            ) as response:
                status = response.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise WebhookError(f"the alert webhook cannot be reached: {type(error).__name__}") from None
        if status >= HTTPStatus.MULTIPLE_CHOICES:
            raise WebhookError(f"the alert webhook answered {status}")
