"""Alerts: what operators have to know, as a log line always, and posted where there is a webhook."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from typing import Any

import aiohttp
from pydantic import ValidationError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential
from yarl import URL

from functions.operations.alerts.limit import AlertLimit, AlertMinute
from functions.pattern.error_class import error_class
from functions.pattern.errors import TransientError
from functions.pattern.known_crowds import Crowd
from functions.pattern.messages import AnnouncementMessage
from functions.pattern.rejected import About
from functions.pattern.silent_agents import SilentAgent
from functions.pattern.waiting import within

#: Seconds for a post: whoever waits for it has 12 seconds in all for what is lost.
_POST_SECONDS = 6.0

_log = logging.getLogger(__name__)


class AlertFormat(StrEnum):
    """What the webhook's owner expects."""

    GENERIC = "generic"
    TEAMS = "teams"


Facts = Mapping[str, str | int | None]


@dataclass(frozen=True, slots=True)
class Alert:
    """An event for operators, with facts by name; `subject` separates causes, such as queues."""

    event: str
    facts: Facts
    subject: str | None = None

    @property
    def cause(self) -> str:
        """The text under which a summary counts the alert."""
        return self.event if self.subject is None else f"{self.event}: {self.subject}"

    def line(self) -> str:
        """Write a log line: the event, then its facts as JSON, which look like no other line or field."""
        return f"{self.event} {json.dumps(self.facts)}"


def task_alert(message: AnnouncementMessage) -> Alert:
    """Make the alert that a task needs an operator."""
    facts: Facts = {
        "task": message.id,
        "epoch": message.epoch,
        "workflow": message.workflow,
        "state": str(message.state),
        "reason": message.reason,
        "at": message.at.isoformat(),
    }
    said = error_class(message.reason or "", message.id)
    return Alert("operator alert", facts, f"{message.workflow}: {message.state}: {said}")


def summary_alert(minute: AlertMinute) -> Alert:
    """Make the summary of the alerts of a minute that were not posted singly."""
    causes = "; ".join(f"{cause} ({count})" for cause, count in minute.waiting.most_common())
    since = minute.since.isoformat()
    return Alert("more alerts", {"alerts": minute.waiting.total(), "since": since, "causes": causes})


def lost_alert(queue: str, message_id: str, task: str | None, reason: str) -> Alert:
    """Make the alert that a message died on a queue; `task` is the one it was about, if it is known."""
    facts: Facts = {"queue": queue, "message_id": message_id, "task": task, "reason": reason}
    return Alert("message lost", facts, queue)


def _crowd_alert(crowd: Crowd, per_minute: int) -> Alert:
    minutes = crowd.minutes(per_minute)
    done_at = None if crowd.blocked else crowd.found_at + timedelta(minutes=minutes)
    when = "once that is over" if done_at is None else f"about {done_at:%Y-%m-%d %H:%M} UTC"
    tasks = "1 task is" if crowd.tasks == 1 else f"{crowd.tasks} tasks are"
    facts: Facts = {
        "behind": crowd.behind,
        "cause": str(crowd.cause),
        "tasks": crowd.tasks,
        "since": crowd.since.isoformat(),
        "per_minute": per_minute,
        "minutes": minutes,
        "done_at": None if done_at is None else done_at.isoformat(),
        "reason": f"{tasks} late behind {crowd.behind} ({crowd.cause}) since {crowd.since:%Y-%m-%d %H:%M}"
        f" UTC; at {per_minute} a minute they take {minutes} min, {when}",
    }
    return Alert("tasks late together", facts, crowd.behind)


def document(alert: Alert, alert_format: AlertFormat) -> dict[str, Any]:
    """Write an alert as the JSON that is posted."""
    if alert_format is AlertFormat.GENERIC:
        return {"event": alert.event, **alert.facts}
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "text": alert.event.capitalize(), "weight": "Bolder", "size": "Medium"},
            *(_line(name, value) for name, value in alert.facts.items() if value is not None),
        ],
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


def _line(name: str, value: str | int) -> dict[str, Any]:
    """Write one fact as text runs, in which Teams reads no Markdown: ids may hold underscores."""
    runs = [
        {"type": "TextRun", "text": f"{name.replace('_', ' ')}: ", "weight": "Bolder"},
        {"type": "TextRun", "text": str(value)},
    ]
    return {"type": "RichTextBlock", "inlines": runs}


class NotAnAlertError(Exception):
    """A message of the queue `operator-alerts` can't be read; the text names fields, not what is in them."""


type Post = Callable[[Alert], Awaitable[None]]


class Alerts:
    """Logs alerts, then posts them by `post`; `limit` decides which are posted singly (None: all)."""

    def __init__(self, post: Post | None, limit: AlertLimit | None = None) -> None:
        self._post = post
        self._limit = limit

    async def alert_task(self, body: bytes) -> None:
        """Log a queued alert, and post it or count it. Raises `TransientError` and `NotAnAlertError`."""
        try:
            message = AnnouncementMessage.model_validate_json(body)
        except ValidationError as error:
            fields = {".".join(map(str, fault["loc"])) or "message" for fault in error.errors()}
            raise NotAnAlertError(f"not an alert: {', '.join(sorted(fields))}") from None
        alert = task_alert(message)
        _log.error(alert.line())
        await self._post_or_count(alert, 35)  # within the handling of its message (45 s)

    async def _post_or_count(self, alert: Alert, seconds: float) -> None:
        """Post an alert singly; the summary counts the others, and each that is not taken in time."""
        if self._post is None or not (self._limit is None or await self._limit.allows(alert.cause)):
            return
        try:
            await within(seconds, self._post(alert))
        except TransientError as fault:
            if self._limit is None:
                raise
            _log.warning("%s not posted: %s", alert.line(), fault)
            await self._limit.add(alert.cause)

    async def post_summary(self) -> None:
        """Post the alerts that were not posted singly. Raises `TransientError` when it is not taken."""
        post = self._post
        if post is not None and self._limit is not None:
            await self._limit.post_summary(lambda minute: within(_POST_SECONDS, post(summary_alert(minute))))

    async def post_recorded(self, alert: Alert) -> None:
        """Post or count an alert of what is recorded and logged already. It raises nothing."""
        try:
            await self._post_or_count(alert, _POST_SECONDS)
        except TransientError as fault:
            _log.warning("%s neither posted nor counted: %s", alert.line(), fault)

    async def alert_refused(self, about: About, reason: str) -> None:
        """Log that an Agent's reply was refused, and post it; the message itself is kept."""
        facts: Facts = {"agent": about.agent, "task": about.task, "step": about.step, "reason": reason}
        await self._tell(Alert("reply refused", facts, about.agent))

    async def alert_silence(self, silent: SilentAgent, ended: bool) -> None:  # noqa: FBT001 - the Supervisor's
        """Log that an Agent answers nothing, or does again, and post it."""
        since = None if silent.since is None else silent.since.isoformat()
        facts: dict[str, str | int | None] = {"agent": silent.agent, "since": since}
        if not ended:
            facts |= {"tasks": silent.tasks, "reason": str(silent)}
        alert = Alert("agent replies again" if ended else "agent silent", facts, silent.agent)
        await self._tell(alert, logging.WARNING if ended else logging.ERROR)

    async def alert_crowd(self, crowd: Crowd, per_minute: int) -> None:
        """Log that many tasks are late together, and post it: once, for all of them."""
        await self._tell(_crowd_alert(crowd, per_minute))

    async def alert_damage(self, rows: int, named: Mapping[str, str]) -> None:
        """Log that rows can't be read, and post it; the heartbeat counts them for as long as it is so."""
        named_rows = "; ".join(f"{key} ({reason})" for key, reason in named.items())
        await self._tell(Alert("rows unreadable", {"rows": rows, "named": named_rows}))

    async def _tell(self, alert: Alert, level: int = logging.ERROR) -> None:
        _log.log(level, alert.line())
        await self.post_recorded(alert)


#: Hosts of Teams' incoming webhooks, and of the workflows that follow them.
_TEAMS_HOSTS = (".webhook.office.com", ".logic.azure.com")


class Webhook:
    """Posts alerts to a secret address, which decides the format; `first_wait` (seconds) is doubled."""

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
